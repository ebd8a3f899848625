import type { dist } from 'shardwise';
import type { Precision } from './precision.ts';

export interface RankData {
  readonly rank: number;
  readonly world: dist.transports.ThreadsWorld;
  /** Which training the rank runs, if its script has several. */
  readonly contestant: string;
  /** The number of rows of a rank's batch. Default: that of the workload. */
  readonly batch?: number | undefined;
  readonly precision: Precision;
}

/** What a rank trains. With `alone`, each rank trains a model of its own and sends nothing. */
export type RankRequest =
  | { readonly mode: 'together' | 'alone'; readonly steps: number }
  | { readonly mode: 'close' };

/** What a rank measured between two barriers of all ranks. */
export interface RankRound {
  readonly msPerStep: number;
  /** The milliseconds per step in which the rank waited for collectives. */
  readonly communicationMs: number;
  /**
   * The bytes of a step's messages. An all-reduce counts twice, because it consists of a reduce-scatter and an
   * all-gather.
   */
  readonly communicationBytes: number;
  readonly losses: readonly number[];
}
