import { checkRank } from '../call/checks.ts';
import type { ProcessGroup } from '@shardwise/core/spec';
import { allGatherBlocks } from './all-gather-blocks.ts';
import { decodeObject } from './object-codec.ts';
import { spread } from './flat.ts';
import { hasRest, objectCall, restOf, type ObjectOptions } from './object-message.ts';
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
