import type { CapturedStack } from '@shardwise/core/base';
import type { DType } from '@shardwise/core/spec';
import type { CallRecord } from './record.ts';

export interface RecordedSize {
  readonly elements: number;
  readonly dtype: DType;
}

export interface RecordedTransfer {
  readonly operation: 'send' | 'recv';
  /** The other rank, by its number in the group. */
  readonly peer: number;
  readonly tag: number;
  /** The number of the message among those in this direction with this peer and tag. */
  readonly number: number;
}

/** A call before the recorder keeps it. Nothing in it refers to the caller's memory. */
export interface NewCall {
  /** The number of the group on this rank. */
  readonly group: number;
  readonly collectiveSequence: number;
  readonly transferSequence: number;
  /** The number of the call among the collectives and messages of the group. */
  readonly groupCall: number;
  readonly what: CallRecord | RecordedTransfer;
  /** Undefined if no data moves. */
  readonly input: RecordedSize | undefined;
  readonly output: RecordedSize | undefined;
  readonly timeoutMs: number;
}

/** A call that the recorder keeps. */
export interface RecordedCall extends NewCall {
  readonly id: number;
  /** The time of the issue. All times are in milliseconds on the clock of performance.now(). */
  readonly createdMs: number;
  startedMs: number | undefined;
  completedMs: number | undefined;
  isRetired: boolean;
  stack: CapturedStack | undefined;
}
