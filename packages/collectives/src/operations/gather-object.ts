import { checkRank } from '../call/checks.ts';
import type { ProcessGroup } from '@shardwise/core/spec';
import { decodeObject } from './object-codec.ts';
import { spread } from './flat.ts';
import {
  BLOCK_BYTES,
  blockOf,
  hasRest,
  objectCall,
  type ObjectCall,
  type ObjectOptions,
  openBlock,
  outgoingObject,
  restOf,
} from './object-message.ts';
import type { PlainData } from './object-data.ts';

/**
 * Gives every rank's plain data to root, in rank order; the other ranks get undefined. Await it before the next
 * call on the group, because objects of more than half a KiB take a second call. If a value is not plain data,
 * it rejects with ConfigError on its rank and with CollectiveError on the others.
 */
export async function gatherObject(
  group: ProcessGroup,
  value: unknown,
  root: number,
  options?: ObjectOptions,
): Promise<readonly PlainData[] | undefined> {
  const object = objectCall('gatherObject', group, options);
  checkRank('gatherObject', 'root', root, group.size);
  // The blocks go to all ranks and not to root alone, because everyone must know whether a second call follows.
  const { own, objects } = await allGatherBlocks(group, value, object);
  const isRoot = group.rank === root;
  if (objects.some((bytes) => hasRest(bytes.byteLength))) {
    const rest = restOf(own);
    const restBytes = objects.map((bytes) => (isRoot ? restOf(bytes).byteLength : 0));
    const received = new Uint8Array(restBytes.reduce((sum, length) => sum + length, 0));
    await group.allToAll(
      { bytes: rest, dtype: 'u8' },
      { bytes: received, dtype: 'u8' },
      {
        ...object.call,
        inputSplits: objects.map((_, to) => (to === root ? rest.byteLength : 0)),
        outputSplits: restBytes,
      },
    );
    if (isRoot) spread(received, objects.map(restOf));
  }
  return isRoot ? objects.map(decodeObject) : undefined;
}

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

/** What every rank knows of all objects when the first bytes of each have been exchanged. */
interface GatheredBlocks {
  /** This rank's object, encoded. */
  readonly own: Uint8Array;
  /** For each rank, memory as long as its object. Bytes that do not fit a block have not come yet. */
  readonly objects: readonly Uint8Array[];
}

/**
 * Gives the first bytes of every rank's object to every rank. Throws on all ranks alike if an object cannot be sent.
 */
async function allGatherBlocks(
  group: ProcessGroup,
  value: unknown,
  object: ObjectCall,
): Promise<GatheredBlocks> {
  const own = outgoingObject(value);
  const blocks = new Uint8Array(group.size * BLOCK_BYTES);
  await group.allGather(
    { bytes: blockOf(own), dtype: 'u8' },
    { bytes: blocks, dtype: 'u8' },
    object.call,
  );
  if (own.error !== undefined) throw own.error;
  const objects = Array.from({ length: group.size }, (_, rank) => {
    const block = blocks.subarray(rank * BLOCK_BYTES, (rank + 1) * BLOCK_BYTES);
    return openBlock(block, rank, object).bytes;
  });
  return { own: own.bytes, objects };
}
