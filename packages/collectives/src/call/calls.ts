import { type CallIdentity, dtypes, type TypedBytes } from '@shardwise/core/spec';
import type { CallLabel } from './aborted-error.ts';
import type { Side } from './failure.ts';
import type { CallRecord } from './record.ts';

/** One rank's call of a collective, after its arguments were checked. */
export interface GroupCall {
  readonly record: CallRecord;
  /** What this rank contributes. Empty if it contributes nothing. */
  readonly input: Uint8Array;
  /**
   * The memory for this rank's result. It is `input` itself for a call in place, and empty if the rank gets no
   * result.
   */
  readonly output: Uint8Array;
  /** Called when all ranks have arrived and the data begins to move. */
  readonly onStarted?: (() => void) | undefined;
  /** Called with the records of all ranks, when all have arrived. */
  readonly onAgreed?: (records: readonly CallRecord[]) => void;
}

/** One rank's call of `send` or `recv`. */
export interface Transfer {
  readonly operation: 'send' | 'recv';
  readonly buffer: TypedBytes;
  readonly peer: number;
  readonly tag: number;
  /** What the call is, which both ends compare. Default: they compare only the sizes. */
  readonly identity?: CallIdentity | undefined;
}

/** Describes a call for messages: `send(to 1, tag 0, f32 [10])`. */
export function describeTransfer({ operation, buffer, peer, tag }: Transfer): string {
  const elements = buffer.bytes.byteLength / dtypes[buffer.dtype].bytes;
  const where = operation === 'send' ? `to ${peer}` : `from ${peer}`;
  return `${operation}(${where}, tag ${tag}, ${buffer.dtype} [${elements}])`;
}

/** The calls of both ends of a message that is not the one which this rank expects. This rank knows only its own name. */
export function sidesOfMessage(rank: number, transfer: Transfer): readonly Side[] {
  const { operation, peer, tag, identity } = transfer;
  const what = operation === 'send' ? 'recv(from' : 'send(to';
  return [
    { ranks: [rank], call: `${describeTransfer(transfer)}, ${identity?.describe() ?? 'unnamed'}` },
    { ranks: [peer], call: `${what} ${rank}, tag ${tag}) of another call` },
  ];
}

/** A call with its number, and the rank of the group that made it. */
export interface IssuedPlace<Call> {
  readonly call: Call;
  readonly sequence: number;
  readonly rank: number;
}

export function labelOf({ call, sequence, rank }: IssuedPlace<GroupCall | Transfer>): CallLabel {
  const { operation } = 'record' in call ? call.record : call;
  return { operation, sequence, rank };
}
