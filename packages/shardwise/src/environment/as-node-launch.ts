import { ConfigError } from '@shardwise/core/extend';
import type { AloneLaunch, Launch, NodeLaunch } from './launch.ts';

/**
 * Returns what `shardwise run` is to start. If a launcher starts one process on each host, as `srun --ntasks-per-node
 * 1` does, its ranks are our hosts. Throws ConfigError if it starts several processes on a host.
 */
export function asNodeLaunch(launch: Launch): NodeLaunch | AloneLaunch {
  if (launch.kind !== 'rank') return launch;
  const { rank, worldSize, localRank: _, localWorldSize, ...rest } = launch;
  if (localWorldSize === 1) {
    const nodes = { nodeRank: rank, minNodes: worldSize, maxNodes: worldSize };
    return { ...rest, kind: 'node', ...nodes, ranksPerNode: undefined };
  }
  throw new ConfigError(
    {
      asked: `shardwise run in an environment of ${launch.launcher}`,
      found: `it was started as ${localWorldSize} of ${worldSize} ranks on this host, and would start more`,
      todo: 'Start one `shardwise run` on each host, or the script itself as each rank',
    },
    { launcher: launch.launcher, localWorldSize, worldSize },
  );
}
