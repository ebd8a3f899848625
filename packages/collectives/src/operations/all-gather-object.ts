import type { ProcessGroup } from '@shardwise/core/spec';
import { allGatherBlocks } from './all-gather-blocks.ts';
import { decodeObject } from './object-codec.ts';
import { hasRest, objectCall, restOf, type ObjectOptions } from './object-message.ts';
import type { PlainData } from './object-data.ts';

/**
 * Gives every rank's plain data to every rank, in rank order. Await it before the next call on the group,
 * because objects of more than half a KiB take a second call. If a value is not plain data, it rejects with
 * ConfigError on its rank and with CollectiveError on the others.
 */
export async function allGatherObject(
  group: ProcessGroup,
  value: unknown,
  options?: ObjectOptions,
): Promise<readonly PlainData[]> {
  const object = objectCall('allGatherObject', group, options);
  const blocks = await allGatherBlocks(group, value, object);
  const objects = blocks.objects.with(group.rank, blocks.own);
  // Each object has a broadcast of its own, because padding all to the longest would take many times the memory.
  const rests = objects.map(async (bytes, root) => {
    if (!hasRest(bytes.byteLength)) return;
    await group.broadcast({ bytes: restOf(bytes), dtype: 'u8' }, root, object.call);
  });
  await Promise.all(rests);
  return objects.map(decodeObject);
}
