import { ConfigError, type ProcessGroup } from '@shardwise/core/spec';
import { decodeObject, encodeObject } from './object-codec.ts';
import { concatenate } from './flat.ts';
import {
  BLOCK_BYTES,
  blockOf,
  hasRest,
  objectCall,
  openBlock,
  outgoingOf,
  restOf,
  type ObjectOptions,
  type Outgoing,
} from './object-message.ts';
import type { PlainData } from './object-data.ts';

/**
 * Gives each rank one item of root's plain data. `values` has one item for each rank. The `values` of the other
 * ranks are not used. Await it before the next call on the group, because objects of more than half a KiB take
 * a second call. If an item is not plain data, it rejects with ConfigError on root and with CollectiveError on
 * the others.
 */
export async function scatterObject(
  group: ProcessGroup,
  values: readonly unknown[] | undefined,
  root: number,
  options?: ObjectOptions,
): Promise<PlainData> {
  const object = objectCall('scatterObject', group, options);
  const objects = group.rank === root ? outgoingList(values ?? [], group.size) : undefined;
  const block = new Uint8Array(BLOCK_BYTES);
  await group.scatter(
    objects && { bytes: blocksOf(objects), dtype: 'u8' },
    { bytes: block, dtype: 'u8' },
    root,
    object.call,
  );
  const failed = objects?.find(({ error }) => error !== undefined);
  if (failed !== undefined) throw failed.error;
  const { bytes, longest } = openBlock(block, root, object);
  if (hasRest(longest)) {
    const rests = (objects ?? []).map((each) => restOf(each.bytes));
    const rest = restOf(bytes);
    await group.allToAll(
      { bytes: concatenate(rests), dtype: 'u8' },
      { bytes: rest, dtype: 'u8' },
      {
        ...object.call,
        inputSplits: ranksOf(group).map((to) => rests[to]?.byteLength ?? 0),
        outputSplits: ranksOf(group).map((from) => (from === root ? rest.byteLength : 0)),
      },
    );
  }
  return decodeObject(bytes);
}

/** The encoded values, or an error in the place of each if one of them cannot be sent. */
function outgoingList(values: readonly unknown[], size: number): readonly Outgoing[] {
  const objects = Array.from({ length: size }, (_, rank) =>
    outgoingOf(() => {
      if (values.length !== size) throw countError(values.length, size);
      return encodeObject(values[rank]);
    }),
  );
  const error = objects.find((object) => object.error !== undefined)?.error;
  return error === undefined ? objects : objects.map(({ bytes }) => ({ bytes, error }));
}

function blocksOf(objects: readonly Outgoing[]): Uint8Array {
  const longest = Math.max(...objects.map(({ bytes }) => bytes.byteLength));
  return concatenate(objects.map((object) => blockOf(object, longest)));
}

function ranksOf(group: ProcessGroup): readonly number[] {
  return Array.from({ length: group.size }, (_, rank) => rank);
}

function countError(count: number, size: number): ConfigError {
  return new ConfigError(
    {
      asked: `scatterObject of ${count} values`,
      found: `the group has ${size} ranks`,
      todo: 'Pass one value for each rank on root',
    },
    { count, size },
  );
}
