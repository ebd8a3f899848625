import { ConfigError } from '@shardwise/core/extend';
/** The launcher whose variables said how this process was started. */
type LauncherName =
  | 'torchrun'
  | 'open-mpi'
  | 'hydra'
  | 'slurm'
  | 'kubeflow'
  | 'leader-worker-set'
  | 'kubernetes';

/** How this process was started. */
export type Launch = RankLaunch | NodeLaunch | AloneLaunch;

/** The address where rank 0, or node 0, listens. Undefined if the launcher does not say. */
export interface LaunchAddress {
  readonly address: string | undefined;
  readonly port: number | undefined;
}

/**
 * Distinguishes one job of a launcher, and one start of this job, from others. Undefined if the launcher does not say.
 */
interface LaunchIdentity {
  readonly jobId: string | undefined;
  /** How often the job has been started again. */
  readonly restartCount: number | undefined;
  readonly maxRestarts: number | undefined;
}

/** This process is rank `rank`. `localRank` counts the ranks of its host. */
export interface RankLaunch extends LaunchAddress, LaunchIdentity {
  readonly kind: 'rank';
  readonly launcher: LauncherName;
  readonly rank: number;
  readonly worldSize: number;
  readonly localRank: number;
  readonly localWorldSize: number;
  /** The host's place among the hosts. Undefined if the launcher does not say. */
  readonly nodeRank: number | undefined;
}

/** This process is to start the ranks of one host. */
export interface NodeLaunch extends LaunchAddress, LaunchIdentity {
  readonly kind: 'node';
  readonly launcher: LauncherName;
  /** The place of this host. Undefined if the hosts agree on it themselves. */
  readonly nodeRank: number | undefined;
  readonly minNodes: number;
  /** Equal to `minNodes` if the number of hosts is fixed. */
  readonly maxNodes: number;
  /** The number of ranks of this host. Undefined if the launcher leaves it to us. */
  readonly ranksPerNode: number | undefined;
}

/** No other launcher has started this process. */
export interface AloneLaunch {
  readonly kind: 'alone';
}

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
