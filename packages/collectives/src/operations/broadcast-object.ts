import type { ProcessGroup } from '@shardwise/core/spec';
import { decodeObject } from './object-codec.ts';
import {
  BLOCK_BYTES,
  blockOf,
  hasRest,
  objectCall,
  openBlock,
  outgoingObject,
  restOf,
  type ObjectOptions,
} from './object-message.ts';
import type { PlainData } from './object-data.ts';

/**
 * Gives root's plain data to every rank. Root gets a copy. The `value` of the other ranks is not used. Await it
 * before the next call on the group, because objects of more than half a KiB take a second call. If the value
 * is not plain data, it rejects with ConfigError on root and with CollectiveError on the others.
 */
export async function broadcastObject(
  group: ProcessGroup,
  value: unknown,
  root: number,
  options?: ObjectOptions,
): Promise<PlainData> {
  const object = objectCall('broadcastObject', group, options);
  const own = group.rank === root ? outgoingObject(value) : undefined;
  const block = own === undefined ? new Uint8Array(BLOCK_BYTES) : blockOf(own);
  await group.broadcast({ bytes: block, dtype: 'u8' }, root, object.call);
  if (own?.error !== undefined) throw own.error;
  const received = openBlock(block, root, object);
  const bytes = own?.bytes ?? received.bytes;
  if (hasRest(bytes.byteLength)) {
    await group.broadcast({ bytes: restOf(bytes), dtype: 'u8' }, root, object.call);
  }
  return decodeObject(bytes);
}
