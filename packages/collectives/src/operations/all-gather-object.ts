import type { ProcessGroup } from '@shardwise/core/spec';
import { decodeObject } from './decode-object.ts';
import {
  BLOCK_BYTES,
  blockOf,
  hasRest,
  openBlock,
  outgoingObject,
  restOf,
  type ObjectOptions,
} from './object-message.ts';
import type { PlainData } from './plain-data.ts';

/**
 * Every rank's plain data, in rank order, on every rank; `value` is checked at run time.
 * Await it before the next call on the group: objects of more than half a KiB take a second call.
 */
export async function allGatherObject(
  group: ProcessGroup,
  value: unknown,
  options?: ObjectOptions,
): Promise<readonly PlainData[]> {
  const own = outgoingObject(value);
  const blocks = new Uint8Array(group.size * BLOCK_BYTES);
  await group.allGather(
    { bytes: blockOf(own), dtype: 'u8' },
    { bytes: blocks, dtype: 'u8' },
    options,
  );
  if (own.error !== undefined) throw own.error;
  const objects = Array.from({ length: group.size }, (_, rank) => {
    const block = blocks.subarray(rank * BLOCK_BYTES, (rank + 1) * BLOCK_BYTES);
    const { bytes } = openBlock(block, 'allGatherObject', rank, options);
    return rank === group.rank ? own.bytes : bytes;
  });
  // One broadcast for each, as padding all to the longest would take that many times the memory.
  const rests = objects.map(async (bytes, root) => {
    if (!hasRest(bytes.byteLength)) return;
    await group.broadcast({ bytes: restOf(bytes), dtype: 'u8' }, root, options);
  });
  await Promise.all(rests);
  return objects.map(decodeObject);
}
