import type { ProcessGroup } from '@shardwise/core/spec';
import { decodeObject } from './object-codec.ts';
import {
  BLOCK_BYTES,
  hasRest,
  objectTransfer,
  openBlock,
  restOf,
  type ObjectTransferOptions,
} from './object-message.ts';
import type { PlainData } from './object-data.ts';

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
