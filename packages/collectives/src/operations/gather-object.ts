import type { ProcessGroup } from '@shardwise/core/spec';
import { decodeObject } from './decode-object.ts';
import { spread } from './flat.ts';
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
 * Every rank's plain data, in rank order, on root; undefined on the other ranks.
 * Await it before the next call on the group: objects of more than half a KiB take a second call.
 */
export async function gatherObject(
  group: ProcessGroup,
  value: unknown,
  root: number,
  options?: ObjectOptions,
): Promise<readonly PlainData[] | undefined> {
  const own = outgoingObject(value);
  const blocks = new Uint8Array(group.size * BLOCK_BYTES);
  // To all, not to root only: everyone must know whether more follows.
  await group.allGather(
    { bytes: blockOf(own), dtype: 'u8' },
    { bytes: blocks, dtype: 'u8' },
    options,
  );
  if (own.error !== undefined) throw own.error;
  const objects = Array.from({ length: group.size }, (_, rank) => {
    const block = blocks.subarray(rank * BLOCK_BYTES, (rank + 1) * BLOCK_BYTES);
    return openBlock(block, 'gatherObject', rank, options).bytes;
  });
  const isRoot = group.rank === root;
  if (objects.some((bytes) => hasRest(bytes.byteLength))) {
    const rest = restOf(own.bytes);
    const restBytes = objects.map((bytes) => (isRoot ? restOf(bytes).byteLength : 0));
    const received = new Uint8Array(restBytes.reduce((sum, length) => sum + length, 0));
    await group.allToAll(
      { bytes: rest, dtype: 'u8' },
      { bytes: received, dtype: 'u8' },
      {
        ...options,
        inputSplits: objects.map((_, to) => (to === root ? rest.byteLength : 0)),
        outputSplits: restBytes,
      },
    );
    if (isRoot) spread(received, objects.map(restOf));
  }
  return isRoot ? objects.map(decodeObject) : undefined;
}
