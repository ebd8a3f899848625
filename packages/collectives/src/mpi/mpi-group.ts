import type { ProcessGroup } from '@shardwise/core/spec';
import { MessagePassingGroup } from './message-passing-group.ts';
import { mpiJob } from './mpi-job.ts';
import { MpiWorld } from './mpi-world.ts';

/**
 * A group of all processes that mpirun, mpiexec or srun has started; of this one alone where none
 * has. Every rank must call it, as often as the others: it waits for them, blocking the thread.
 * MPI begins with the first call and ends with the process. Throws ConfigError where no library of
 * MPI can be loaded.
 */
export async function mpiGroup(): Promise<ProcessGroup> {
  const job = mpiJob();
  const communicator = job.calls.duplicate(job.calls.abi.world);
  const members = Array.from({ length: job.size }, (_, rank) => rank);
  const world = job.open((id) => new MpiWorld(job, id));
  return new MessagePassingGroup({ world, communicator, id: '', members });
}
