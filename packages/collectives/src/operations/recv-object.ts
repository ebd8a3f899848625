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
import type { PlainData } from './plain-data.ts';

/**
 * Receives plain data that rank `from` gives to `sendObject`. Await it before the next receive from that rank
 * with that tag. Rejects with ConfigError for an object of more than `maxBytes`; the object is then lost, and
 * so are later messages with that tag. Rejects with CollectiveError where the sender failed.
 */
export async function recvObject(
  group: ProcessGroup,
  from: number,
  options?: ObjectTransferOptions,
): Promise<PlainData> {
  const object = objectTransfer('recvObject', options);
  const block = new Uint8Array(BLOCK_BYTES);
  await group.recv({ bytes: block, dtype: 'u8' }, from, object.call);
  const { bytes } = openBlock(block, from, object);
  if (hasRest(bytes.byteLength)) {
    await group.recv({ bytes: restOf(bytes), dtype: 'u8' }, from, object.call);
  }
  return decodeObject(bytes);
}
