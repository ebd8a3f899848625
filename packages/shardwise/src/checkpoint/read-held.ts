import {
  type Block,
  dtypes,
  elementCount,
  type HostArray,
  type SavedType,
} from '@shardwise/core/extend';
import type { PieceFiles } from './piece-files.ts';
import type { StoredTensor } from './state-file.ts';

/**
 * What this rank keeps of a tensor that lies so, with zeros for padding; of the values of several ranks the
 * mean, which is of f32. Shape: -> shape.
 */
export async function readHeld(
  files: PieceFiles,
  stored: StoredTensor,
  { shape, extent }: Pick<SavedType, 'shape' | 'extent'>,
  places: readonly Block[],
): Promise<HostArray> {
  const { dtype } = stored;
  const bytes = new Uint8Array(elementCount(shape) * dtypes[dtype].bytes);
  const [first = [], ...others] = places;
  const read = (place: Block): Promise<Uint8Array<ArrayBuffer>> => {
    const regions = extent.regions.map((each) => ({ ...each, block: [...place, ...each.block] }));
    return files.readRegions(stored, regions);
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
