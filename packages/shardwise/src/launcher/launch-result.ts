import type { RankOutcome } from './rank-handle.ts';

/** How the ranks of this host ended. */
export interface LaunchResult {
  /** The outcome of each rank. */
  readonly outcomes: readonly RankOutcome[];
  /** The rank that failed by itself, before the others failed for want of it. */
  readonly culprit: number | undefined;
}
