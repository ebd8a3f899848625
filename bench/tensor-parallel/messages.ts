import type { ThreadsWorld } from 'shardwise';

/** One rank with two threads, and two ranks with one each. */
export type Mode = 'alone' | 'tensor' | 'sequence';
export const modes: readonly Mode[] = ['alone', 'tensor', 'sequence'];

export interface RankData {
  readonly mode: Mode;
  readonly rank: number;
  readonly world: ThreadsWorld;
}

export type RankRequest = { readonly steps: number } | 'close';

/** What a rank measured; counts are of one step. */
export interface RankRound {
  readonly msPerStep: number;
  readonly communicationMs: number;
  /** Messages of B · T · C elements, by collective. */
  readonly activationMessages: Readonly<Record<string, number>>;
  readonly loss: number;
  /** Of parameters alone, and the most in use since the start. */
  readonly parameterBytes: number;
  readonly peakBytes: number;
}
