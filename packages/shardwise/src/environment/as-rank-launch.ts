import { ConfigError } from '@shardwise/core/extend';
import type { AloneLaunch, Launch, RankLaunch } from './launch.ts';

/**
 * Returns how a process other than `shardwise run` was started. If a launcher starts one process for each host, this
 * process is the host's only rank. Throws ConfigError if the host is to have several ranks.
 */
export function asRankLaunch(launch: Launch): RankLaunch | AloneLaunch {
  if (launch.kind !== 'node') return launch;
  const { nodeRank, minNodes, maxNodes, ranksPerNode = 1, ...rest } = launch;
  if (nodeRank !== undefined && minNodes === maxNodes && ranksPerNode === 1) {
    const numbers = { rank: nodeRank, worldSize: maxNodes, localRank: 0, localWorldSize: 1 };
    return { ...rest, kind: 'rank', ...numbers, nodeRank };
  }
  const nodes = minNodes === maxNodes ? `${maxNodes}` : `${minNodes} to ${maxNodes}`;
  throw new ConfigError(
    {
      asked: `A rank in an environment of ${launch.launcher}`,
      found: `it starts one process for each of ${nodes} hosts, which is to start ${ranksPerNode} ranks`,
      todo: 'Have it start `shardwise run SCRIPT` in place of the script',
    },
    { launcher: launch.launcher, minNodes, maxNodes, ranksPerNode },
  );
}
