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
