import { dtypes, type TypedBytes } from '@shardwise/core/spec';
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

/** One message between two ranks. */
export interface Transfer {
  readonly operation: 'send' | 'recv';
  readonly buffer: TypedBytes;
  readonly peer: number;
  readonly tag: number;
}

/** `send(to 1, tag 0, f32 [10])` */
export function describeTransfer({ operation, buffer, peer, tag }: Transfer): string {
  const elements = buffer.bytes.byteLength / dtypes[buffer.dtype].bytes;
  const where = operation === 'send' ? `to ${peer}` : `from ${peer}`;
  return `${operation}(${where}, tag ${tag}, ${buffer.dtype} [${elements}])`;
}
