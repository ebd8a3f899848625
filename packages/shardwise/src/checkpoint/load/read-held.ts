import {
  chunksOf,
  type DimRange,
  dtypes,
  elementCount,
  type HostArray,
  ownPlace,
  type SavedType,
} from '@shardwise/core/extend';
import type { ChunkFiles } from './chunk-files.ts';
import type { StoredTensor } from '../format/index-file.ts';

/**
 * Reads what this rank keeps of a tensor, in the layout given. Padding is zero. If `places` names several ranks, it
 * returns the mean of their values, which must be f32. The result has the given shape.
 */
export async function readHeld(
  files: ChunkFiles,
  stored: StoredTensor,
  { shape, layout, wholeShape }: Pick<SavedType, 'shape' | 'layout' | 'wholeShape'>,
  places: readonly (readonly DimRange[])[],
): Promise<HostArray> {
  const { dtype } = stored;
  const own = chunksOf(wholeShape, layout, ownPlace);
  const bytes = new Uint8Array(elementCount(shape) * dtypes[dtype].bytes);
  const [first = [], ...others] = places;
  const read = (place: readonly DimRange[]): Promise<Uint8Array<ArrayBuffer>> => {
    const chunks = own.map((each) => ({ ...each, box: [...place, ...each.box] }));
    return files.readChunks(stored, chunks);
  };
  const held = await read(first);
  if (others.length > 0) {
    const sums = Float64Array.from(new Float32Array(held.buffer));
    for (const place of others) {
      new Float32Array((await read(place)).buffer).forEach((value, index) => {
        sums[index] = (sums[index] ?? 0) + value;
      });
    }
    new Float32Array(held.buffer).set(sums.map((sum) => sum / places.length));
  }
  bytes.set(held);
  return { dtype, shape, bytes };
}
