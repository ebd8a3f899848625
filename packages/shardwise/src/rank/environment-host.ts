import type { RankLaunch } from '../environment/launch.ts';
import { environmentTransport } from './environment-transport.ts';
import { joinByEnvironment } from './join/join-by-environment.ts';
import { joinMpi } from './join/join-mpi.ts';
import type { RankHost } from './rank-host.ts';
import { withoutLauncher } from './without-launcher.ts';

/** Returns the host of a rank that torchrun, mpirun, srun or an operator has started. Rank 0 prints its metrics. */
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
    enter: ({ group }) => withoutLauncher(group, transport),
  };
}
