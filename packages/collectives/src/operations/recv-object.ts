import type { ProcessGroup } from '@shardwise/core/spec';
import { decodeObject } from './decode-object.ts';
import { BLOCK_BYTES, hasRest, openBlock, restOf, type ObjectOptions } from './object-message.ts';
import type { PlainData } from './plain-data.ts';

/**
 * Plain data that rank `from` gives to `sendObject`. Await it before the next receive from that rank
 * with that tag. Throws ConfigError for an object of more than `maxBytes`, which is then lost with
 * the messages behind it.
 */
export async function recvObject(
  group: ProcessGroup,
  from: number,
  options?: ObjectOptions & { readonly tag?: number },
): Promise<PlainData> {
  const block = new Uint8Array(BLOCK_BYTES);
  await group.recv({ bytes: block, dtype: 'u8' }, from, options);
  const { bytes } = openBlock(block, 'recvObject', from, options);
  if (hasRest(bytes.byteLength)) {
    await group.recv({ bytes: restOf(bytes), dtype: 'u8' }, from, options);
  }
  return decodeObject(bytes);
}
