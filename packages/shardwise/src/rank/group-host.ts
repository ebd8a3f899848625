import type { ProcessGroup } from '@shardwise/core/extend';
import { detectLaunch } from '../environment/detect-launch.ts';
import { ownTransport } from './own-transport.ts';
import type { RankHost } from './rank-host.ts';
import { withoutLauncher } from './without-launcher.ts';

/** Returns the host of a rank whose script has connected the ranks itself. Rank 0 prints its metrics. */
export function groupHost(group: ProcessGroup, environment: NodeJS.ProcessEnv): RankHost {
  const { rank, size } = group;
  const launch = detectLaunch(environment);
  const isSame = launch.kind === 'rank' && launch.rank === rank && launch.worldSize === size;
  const transport = ownTransport(group);
  return {
    rank,
    // If it is unknown which ranks share a host, all of them may.
    localRank: isSame ? launch.localRank : rank,
    transport,
    isRecorded: true,
    join: async () => ({ group, arena: undefined }),
    enter: () => withoutLauncher(group, transport),
  };
}
