import type { profiler } from 'shardwise/browser';

/** The mistakes that one rank can make in the third step. */
export const mistakes = {
  'leaves out an all-reduce': 'leave out',
  'waits for something else': 'wait',
  'calls it with another size': 'size',
  'computes without an end': 'busy',
} as const;

export type Mistake = (typeof mistakes)[keyof typeof mistakes];

/** The data that the page gives to each rank. */
export interface HangTask {
  readonly culprit: number;
  readonly mistake: Mistake;
}

/** A message of a rank to the page. */
export type HangMessage =
  | { readonly kind: 'call'; readonly call: string; readonly step: number }
  | { readonly kind: 'dump'; readonly dump: profiler.FlightDump };

/** The page's request for the record of a rank. */
export interface DumpRequest {
  readonly wantsDump: true;
}

export function isDumpRequest(data: unknown): data is DumpRequest {
  return typeof data === 'object' && data !== null && 'wantsDump' in data;
}

/** The step in which the mistake is made. */
export const MISTAKEN_STEP = 3;
/** How long a call waits for other ranks, in milliseconds. */
export const CALL_LIMIT_MS = 2000;
