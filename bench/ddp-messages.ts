import type { ThreadsWorld } from 'shardwise';

export interface RankData {
  readonly rank: number;
  readonly world: ThreadsWorld;
}

export type RankRequest =
  /** `alone`: each rank trains a model of its own and sends nothing. */
  { readonly mode: 'ddp' | 'alone'; readonly steps: number } | { readonly mode: 'close' };

/** What a rank measured between two barriers of all ranks. */
export interface RankRound {
  readonly msPerStep: number;
  /** Waiting for collectives, per step. */
  readonly communicationMs: number;
  readonly losses: readonly number[];
}
