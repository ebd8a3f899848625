import type { ProcessGroup } from '@shardwise/core/spec';
import { decodeObject, encodeObject } from './object-codec.ts';
import {
  BLOCK_BYTES,
  blockOf,
  checkLength,
  hasRest,
  objectTransfer,
  type ObjectTransferOptions,
  openBlock,
  outgoingOf,
  restOf,
} from './object-message.ts';
import type { PlainData } from './object-data.ts';

/**
 * Sends plain data to a rank that calls `recvObject`. Objects of more than half a KiB take two messages. If the
 * value is not plain data, it rejects with ConfigError, and the receiver's call rejects with CollectiveError.
 */
export async function sendObject(
  group: ProcessGroup,
  value: unknown,
  to: number,
  options?: ObjectTransferOptions,
): Promise<void> {
  const object = objectTransfer('sendObject', group, options);
  const own = outgoingOf(() => {
    const bytes = encodeObject(value);
    checkLength(group.rank, bytes.byteLength, object);
    return bytes;
  });
  const sent = [group.send({ bytes: blockOf(own), dtype: 'u8' }, to, object.call)];
  if (hasRest(own.bytes.byteLength)) {
    sent.push(group.send({ bytes: restOf(own.bytes), dtype: 'u8' }, to, object.call));
  }
  await Promise.all(sent);
  if (own.error !== undefined) throw own.error;
}

/**
 * Receives the plain data that rank `from` passes to `sendObject`. Await it before the next receive from that
 * rank with that tag. For an object of more than `maxBytes` it rejects with ConfigError. Then the object is
 * lost, and so are later messages with that tag. Rejects with CollectiveError if the sender failed.
 */
export async function recvObject(
  group: ProcessGroup,
  from: number,
  options?: ObjectTransferOptions,
): Promise<PlainData> {
  const object = objectTransfer('recvObject', group, options);
  const block = new Uint8Array(BLOCK_BYTES);
  await group.recv({ bytes: block, dtype: 'u8' }, from, object.call);
  const { bytes } = openBlock(block, from, object);
  if (hasRest(bytes.byteLength)) {
    await group.recv({ bytes: restOf(bytes), dtype: 'u8' }, from, object.call);
  }
  return decodeObject(bytes);
}
