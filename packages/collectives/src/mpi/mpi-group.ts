import type { ProcessGroup } from '@shardwise/core/spec';
import { groupOver } from '../group/create-group.ts';
import type { AlgorithmTable } from '../group/selection/algorithm-table.ts';
import { mpiJob } from './mpi-job.ts';
import { MpiReducer } from './mpi-reducer.ts';
import { MpiTransport } from './mpi-transport.ts';

/**
 * The group of all processes that mpirun, mpiexec or srun has started, or of this process alone if none of them
 * has started it. Every rank must call it equally often. It waits for the other ranks and blocks the thread.
 * MPI begins with the first call and ends with the process. Throws ConfigError if no MPI library can be loaded.
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

const KiB = 1024;
const GiB = 1024 ** 3;

/**
 * Rules that were measured on one host, and set by hand where runs on a busy machine disagreed on long
 * messages.
 */
export const mpiAlgorithmTable: AlgorithmTable = {
  madeBy: 'the loop of bench/peers/mpi-group.ts, Open MPI 5.0 and MPICH 5.0, 2 ranks',
  machine: '2 cores of an Intel Xeon, busy with other work, Node 24.21',
  rules: [
    { operation: 'allReduce', hosts: 'one', ranks: 2, upToBytes: 64 * KiB, algorithm: 'direct' },
    { operation: 'allReduce', hosts: 'one', ranks: 3, upToBytes: 16 * KiB, algorithm: 'direct' },
    { operation: 'allGather', hosts: 'one', ranks: 2, upToBytes: GiB, algorithm: 'native' },
    { operation: 'broadcast', hosts: 'one', ranks: 2, upToBytes: null, algorithm: 'native' },
    { operation: 'barrier', hosts: 'one', ranks: 2, upToBytes: null, algorithm: 'meeting' },
  ],
};
