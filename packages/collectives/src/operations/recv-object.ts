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
 * Plain data that rank `from` gives to `sendObject`. Await it before the next receive from that rank
 * with that tag. Throws ConfigError for an object of more than `maxBytes`, which is then lost with
 * the messages behind it.
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
