import {
  currentSession,
  dtypes,
  elementCount,
  type Node,
  type ProcessGroup,
} from '@shardwise/core/extend';
import { narrowed, widened } from './half-floats.ts';
import type { Message } from './message.ts';

/** What arrives, as bytes. */
export async function receiveBytes(
  { node, peer, tag, sentAs = null }: Message,
  group: ProcessGroup,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(elementCount(node.shape) * dtypes[sentAs ?? node.dtype].bytes);
  if (bytes.byteLength > 0) await group.recv({ bytes, dtype: 'u8' }, peer, { tag });
  return sentAs === null ? bytes : widened(bytes, sentAs);
}

export async function sendBytes(
  { peer, tag, sentAs = null }: Message,
  value: Uint8Array,
  group: ProcessGroup,
): Promise<void> {
  const bytes = sentAs === null ? value : narrowed(value, sentAs);
  if (bytes.byteLength > 0) await group.send({ bytes, dtype: 'u8' }, peer, { tag });
}

/** A copy, as the value may be freed before it has left. */
export async function bytesOf({ value, shape }: Node): Promise<Uint8Array> {
  if (value?.kind === 'host') return value.bytes.slice();
  if (value?.kind !== 'device')
    throw new RangeError(`no value of shape [${shape.join(', ')}] to send`);
  const { backend } = currentSession();
  const { buffer } = value.storage;
  return backend.map(buffer)?.slice() ?? (await backend.read(buffer));
}
