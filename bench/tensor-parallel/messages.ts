import type { GridAxis, GridName } from './grids.ts';
import type { ThreadsWorld } from 'shardwise';

/** One rank with two threads, and two ranks with one each; `gathering` is `sequence` with gatherAgain. */
export const modes = ['alone', 'tensor', 'sequence', 'gathering'] as const;
export type Mode = (typeof modes)[number];

export interface RankData {
  readonly mode: Mode;
  readonly layers: number;
  /** Sequences of a step. */
  readonly batch: number;
  readonly rank: number;
  readonly world: ThreadsWorld;
}

export type RankRequest = { readonly steps: number } | 'close';

/** What a rank keeps, from its allocator. Bytes. */
export interface RankMemory {
  readonly parameterBytes: number;
  readonly gradientBytes: number;
  readonly optimizerBytes: number;
  /** The most in use since the start. */
  readonly peakBytes: number;
}

/** What a rank measured; counts are of one step. */
export interface RankRound extends RankMemory {
  readonly msPerStep: number;
  readonly communicationMs: number;
  /** Messages of B · T · C elements, by collective. */
  readonly activationMessages: Readonly<Record<string, number>>;
  readonly loss: number;
}

export interface GridRankData {
  readonly grid: GridName;
  readonly axes: readonly GridAxis[];
  readonly layers: number;
  readonly rank: number;
  readonly world: ThreadsWorld;
}

export interface GridRound extends RankMemory {
  /** Of this rank's messages in a step. */
  readonly messageBytes: number;
}
