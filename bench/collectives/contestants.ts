import { startGloo } from './gloo.ts';
import type { Contestant } from './job.ts';
import { startOpenMpi } from './open-mpi.ts';
import type { CollectivesOptions, TransportName } from './options.ts';
import { findMpirun } from './mpirun.ts';
import { startMpiRanks, startShmRanks, startSocketRanks } from './process-ranks.ts';
import { startThreadRanks } from './thread-ranks.ts';

/** The contestant that is a limit for a transport, because it does the same work without a group. */
export const limitOf: Record<TransportName, 'memoryLimit' | 'streamLimit'> = {
  mpi: 'memoryLimit',
  threads: 'memoryLimit',
  shm: 'memoryLimit',
  tcp: 'streamLimit',
};

const starts: Record<TransportName, (size: number) => Promise<Contestant>> = {
  threads: async (size) => startThreadRanks('threads', 'group', size),
  shm: startShmRanks,
  mpi: startMpiRanks,
  tcp: (size) => startSocketRanks('tcp', 'tcp', size),
};

/** All contestants with `size` ranks, and why some peers are absent. */
export interface Contestants {
  readonly all: readonly Contestant[];
  readonly absent: Readonly<Record<string, string>>;
}

export async function startContestants(
  { transports, peers }: CollectivesOptions,
  size: number,
): Promise<Contestants> {
  const all: Contestant[] = [];
  const absent: Record<string, string> = {};
  const limits = new Set(transports.map((transport) => limitOf[transport]));
  const mpirun = await findMpirun();
  for (const transport of transports) {
    if (transport === 'mpi' && 'reason' in mpirun) absent['mpi'] = mpirun.reason;
    else all.push(await starts[transport](size));
  }
  if (limits.has('memoryLimit')) all.push(startThreadRanks('memoryLimit', 'limit', size));
  if (limits.has('streamLimit')) all.push(await startSocketRanks('streamLimit', 'stream', size));
  for (const peer of peers) {
    const started = await (peer === 'gloo' ? startGloo(size) : startOpenMpi(size));
    if ('contestant' in started) all.push(started.contestant);
    else absent[started.name] = started.reason;
  }
  return { all, absent };
}
