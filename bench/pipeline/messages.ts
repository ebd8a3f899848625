import type { dist } from 'shardwise';

export const RANKS = 2;
export const MICROBATCHES = 8;

/** The schedules that are measured, and the blocks with which their stages begin. */
export const contestants = {
  gpipe: ['blocks.4'],
  '1f1b': ['blocks.4'],
  zb1p: ['blocks.4'],
  zbv: ['blocks.2', 'blocks.4', 'blocks.6'],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type ScheduleMeasured = keyof typeof contestants;

/**
 * In mode `alone`, each rank accumulates the microbatches in a model of its own. Both ranks do this at the same time.
 */
export type Mode = ScheduleMeasured | 'alone';

export interface RankData {
  readonly mode: Mode;
  /** The number of rows of a microbatch. */
  readonly rows: number;
  readonly rank: number;
  readonly world: dist.transports.ThreadsWorld;
}

/** `latencyMs` is by how much messages are delayed, in addition to the time that they take. */
export type RankRequest = { readonly steps: number; readonly latencyMs: number } | 'close';

/** An action of a pipeline. Times are in milliseconds of a clock that all ranks share. */
export interface MeasuredAction {
  /** The name of the action, such as `1F0`. */
  readonly name: string;
  readonly startMs: number;
  readonly durationMs: number;
}

export interface MeasuredStep {
  readonly startMs: number;
  readonly endMs: number;
  /** The time from the start until losses and gradients are available, for a rank with a model of its own. */
  readonly accumulationMs: number;
  readonly actions: readonly MeasuredAction[];
  readonly loss: number;
}

export interface RankRound {
  readonly msPerStep: number;
  readonly steps: readonly MeasuredStep[];
}
