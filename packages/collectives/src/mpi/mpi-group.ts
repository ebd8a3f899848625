import type { ProcessGroup } from '@shardwise/core/spec';
import { groupOver } from '../group/create-group.ts';
import { mpiJob } from './mpi-job.ts';
import { MpiReducer } from './mpi-reducer.ts';
import { MpiTransport } from './mpi-transport.ts';
import { mpiAlgorithmTable } from './mpi-algorithm-table.ts';

/**
 * A group of all processes that mpirun, mpiexec or srun has started; of this one alone where none
 * has. Every rank must call it, as often as the others: it waits for them, blocking the thread.
 * MPI begins with the first call and ends with the process. Throws ConfigError where no library of
 * MPI can be loaded.
 */
export async function mpiGroup(): Promise<ProcessGroup> {
  const job = mpiJob();
  const handle = job.calls.duplicate(job.calls.abi.world);
  const transport = job.open((id) => new MpiTransport(job, id, handle));
  return groupOver(
    transport,
    { algorithmTable: mpiAlgorithmTable },
    { native: transport, reducer: new MpiReducer(job.calls) },
  );
}
