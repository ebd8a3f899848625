import type { ThreadsWorld } from 'shardwise';
import type { Precision } from './precision.ts';

export interface RankData {
  readonly rank: number;
  readonly world: ThreadsWorld;
  /** Which training, where a script has several. */
  readonly contestant: string;
  /** Rows of a rank's batch, if not as many as in the workload. */
  readonly batch?: number | undefined;
  readonly precision: Precision;
}

/** What a rank trains; `alone`: each rank a model of its own, and sends nothing. */
export type RankRequest =
  | { readonly mode: 'together' | 'alone'; readonly steps: number }
  | { readonly mode: 'close' };

/** What a rank measured between two barriers of all ranks. */
export interface RankRound {
  readonly msPerStep: number;
  /** Waiting for collectives, per step. */
  readonly communicationMs: number;
  /** Of a step's messages; an all-reduce counts twice, as a reduction to parts and a gather. */
  readonly communicationBytes: number;
  readonly losses: readonly number[];
}
