import type { ProcessGroup } from '@shardwise/core/spec';
import { allGatherBlocks } from './all-gather-blocks.ts';
import { decodeObject } from './object-codec.ts';
import { hasRest, objectCall, restOf, type ObjectOptions } from './object-message.ts';
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
  const object = objectCall('allGatherObject', options);
  const blocks = await allGatherBlocks(group, value, object);
  const objects = blocks.objects.with(group.rank, blocks.own);
  // One broadcast for each, as padding all to the longest would take that many times the memory.
  const rests = objects.map(async (bytes, root) => {
    if (!hasRest(bytes.byteLength)) return;
    await group.broadcast({ bytes: restOf(bytes), dtype: 'u8' }, root, object.call);
  });
  await Promise.all(rests);
  return objects.map(decodeObject);
}
