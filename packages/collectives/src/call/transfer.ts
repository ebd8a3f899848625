import { dtypes, type TypedBytes } from '@shardwise/core/spec';

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
