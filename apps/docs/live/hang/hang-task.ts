import type { FlightDump } from 'shardwise/browser';

/** What one rank does otherwise than the others, in the third step. */
export const mistakes = {
  'leaves out an all-reduce': 'leave out',
  'waits for something else': 'wait',
  'calls it with another size': 'size',
  'computes without an end': 'busy',
} as const;

export type Mistake = (typeof mistakes)[keyof typeof mistakes];

/** What the page gives to each rank. */
export interface HangTask {
  readonly culprit: number;
  readonly mistake: Mistake;
}

/** What a rank sends to the page. */
export type HangMessage =
  | { readonly kind: 'call'; readonly call: string; readonly step: number }
  | { readonly kind: 'dump'; readonly dump: FlightDump };

/** The page asks for what a rank has recorded. */
export interface DumpRequest {
  readonly wantsDump: true;
}

export function isDumpRequest(data: unknown): data is DumpRequest {
  return typeof data === 'object' && data !== null && 'wantsDump' in data;
}

/** The step in which the mistake is made. */
export const MISTAKEN_STEP = 3;
/** How long a call waits for other ranks. Milliseconds. */
export const CALL_LIMIT_MS = 2000;
