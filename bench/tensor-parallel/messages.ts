import type { GridAxis, GridName } from './grids.ts';
import type { dist } from 'shardwise';

/**
 * `alone` is one rank with two threads. The others are two ranks with one thread each. `gathering` is `sequence` with
 * gatherAgain.
 */
export const modes = ['alone', 'tensor', 'sequence', 'gathering'] as const;
export type Mode = (typeof modes)[number];

export interface RankData {
  readonly mode: Mode;
  readonly layers: number;
  /** The number of sequences of a step. */
  readonly batch: number;
  readonly rank: number;
  readonly world: dist.transports.ThreadsWorld;
}

export type RankRequest = { readonly steps: number } | 'close';

/** The bytes that a rank keeps, as its allocator counts them. */
export interface RankMemory {
  readonly parameterBytes: number;
  readonly gradientBytes: number;
  readonly optimizerBytes: number;
  /** The most bytes in use since the start. */
  readonly peakBytes: number;
}

/** What a rank measured. Counts are those of one step. */
export interface RankRound extends RankMemory {
  readonly msPerStep: number;
  readonly communicationMs: number;
  /** The number of messages of B · T · C elements, by collective. */
  readonly activationMessages: Readonly<Record<string, number>>;
  readonly loss: number;
}

export interface GridRankData {
  readonly grid: GridName;
  readonly axes: readonly GridAxis[];
  readonly layers: number;
  readonly rank: number;
  readonly world: dist.transports.ThreadsWorld;
}

export interface GridRound extends RankMemory {
  /** The bytes of this rank's messages in a step. */
  readonly messageBytes: number;
}
