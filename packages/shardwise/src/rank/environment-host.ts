import { resolve } from 'node:path';
import type { RankLaunch } from '../environment/launch.ts';
import { runDirectoryName } from '../run-state/run-directory.ts';
import { AgreedStop } from './agreed-stop.ts';
import { environmentTransport } from './environment-transport.ts';
import { joinByEnvironment } from './join/join-by-environment.ts';
import { joinMpi } from './join/join-mpi.ts';
import { printedMetrics } from './printed-metrics.ts';
import type { RankHost } from './rank-host.ts';
import { shareText } from './share-text.ts';

/** Of a rank that torchrun, mpirun, srun or an operator has started; rank 0 prints its metrics. */
export function environmentHost(launch: RankLaunch, environment: NodeJS.ProcessEnv): RankHost {
  const { rank, worldSize: size, localRank } = launch;
  const transport = environmentTransport(launch, environment);
  return {
    rank,
    localRank,
    transport,
    isRecorded: true,
    join: () =>
      transport.kind === 'mpi' ? joinMpi({ rank, size }) : joinByEnvironment(launch, environment),
    enter: async ({ group }) => {
      // By one clock, and on one host's disk.
      const own = resolve(runDirectoryName(process.argv[1] ?? 'script', new Date()));
      const runDirectory = await shareText(group, own);
      const stop = new AgreedStop(group);
      const metrics = printedMetrics({
        runDirectory,
        rank,
        transport,
        onStop: () => stop.request(),
      });
      return { runDirectory, resumeDirectory: undefined, stop, ...metrics };
    },
  };
}
