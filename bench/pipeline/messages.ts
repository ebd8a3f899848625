import type { ThreadsWorld } from 'shardwise';

export const RANKS = 2;
export const MICROBATCHES = 8;

/** The schedules that are measured, with where their stages begin. */
export const contestants = {
  gpipe: ['blocks.4'],
  '1f1b': ['blocks.4'],
  zb1p: ['blocks.4'],
  zbv: ['blocks.2', 'blocks.4', 'blocks.6'],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type ScheduleMeasured = keyof typeof contestants;

/** `alone`: each rank accumulates the microbatches in a model of its own, at the same time as the other. */
export type Mode = ScheduleMeasured | 'alone';

export interface RankData {
  readonly mode: Mode;
  /** Of a microbatch. */
  readonly rows: number;
  readonly rank: number;
  readonly world: ThreadsWorld;
}

/** `latencyMs` is what messages take longer, above what they take anyway. */
export type RankRequest = { readonly steps: number; readonly latencyMs: number } | 'close';

/** An action of a pipeline, in milliseconds of a clock that all ranks share. */
export interface MeasuredAction {
  /** As `1F0`. */
  readonly name: string;
  readonly startMs: number;
  readonly durationMs: number;
}

export interface MeasuredStep {
  readonly startMs: number;
  readonly endMs: number;
  /** From the start until losses and gradients are there, where the rank has a model of its own. */
  readonly accumulationMs: number;
  readonly actions: readonly MeasuredAction[];
  readonly loss: number;
}

export interface RankRound {
  readonly msPerStep: number;
  readonly steps: readonly MeasuredStep[];
}
