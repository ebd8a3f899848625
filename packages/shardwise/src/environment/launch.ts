/** Whose variables said how this process was started. */
export type LauncherName =
  | 'torchrun'
  | 'open-mpi'
  | 'hydra'
  | 'slurm'
  | 'kubeflow'
  | 'leader-worker-set'
  | 'kubernetes';

/** How this process was started. */
export type Launch = RankLaunch | NodeLaunch | AloneLaunch;

/** Where rank 0, or node 0, listens; undefined where the launcher does not say. */
export interface LaunchAddress {
  readonly address: string | undefined;
  readonly port: number | undefined;
}

/** What tells one job of a launcher, and one start of it, from others; undefined where it does not say. */
export interface LaunchIdentity {
  readonly jobId: string | undefined;
  /** How often the job has been started again. */
  readonly restartCount: number | undefined;
  readonly maxRestarts: number | undefined;
}

/** This process is rank `rank`; `localRank` counts the ranks of its host. */
export interface RankLaunch extends LaunchAddress, LaunchIdentity {
  readonly kind: 'rank';
  readonly launcher: LauncherName;
  readonly rank: number;
  readonly worldSize: number;
  readonly localRank: number;
  readonly localWorldSize: number;
  /** The host's place among the hosts; undefined where the launcher does not say. */
  readonly nodeRank: number | undefined;
}

/** This process is to start the ranks of one host. */
export interface NodeLaunch extends LaunchAddress, LaunchIdentity {
  readonly kind: 'node';
  readonly launcher: LauncherName;
  /** The place of this host; undefined where the hosts agree upon it. */
  readonly nodeRank: number | undefined;
  readonly minNodes: number;
  /** Equal to `minNodes` where their number is fixed. */
  readonly maxNodes: number;
  /** Ranks of this host; undefined where the launcher leaves their number to us. */
  readonly ranksPerNode: number | undefined;
}

/** No launcher but ours. */
export interface AloneLaunch {
  readonly kind: 'alone';
}
