import type { CallRecord } from './record.ts';

/** A checked call of one rank. */
export interface GroupCall {
  readonly record: CallRecord;
  /** What this rank contributes; empty where it contributes nothing. */
  readonly input: Uint8Array;
  /** Where this rank's result goes: `input` itself for calls in place, empty where it gets none. */
  readonly output: Uint8Array;
  /** Called when all ranks have arrived and the data begins to move. */
  readonly onStarted?: (() => void) | undefined;
  /** Told every rank's record when all have arrived. */
  readonly onMet?: (records: readonly CallRecord[]) => void;
}
