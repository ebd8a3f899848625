import { type Chunk, chunksOf, type Layout, takeChunks } from '@shardwise/core/extend';
import type { Elements, RankRecord } from './records.ts';

/** The elements that a rank should have of a whole tensor, by its layout alone. */
export function partOfWhole(
  whole: Elements,
  shape: readonly number[],
  layout: Layout,
  places: RankRecord['places'],
): Elements {
  const chunks = chunksOf(shape, layout, (axis) => places[axis] ?? { size: 1, rank: 0 });
  return taken(whole, shape, chunks);
}

/** A range of indices of one dim, with all of the others. */
export function rangeOf(
  whole: Elements,
  shape: readonly number[],
  dim: number,
  start: number,
  stop: number,
): Elements {
  const box = shape.map((size, each) =>
    each === dim ? { start, stop } : { start: 0, stop: size },
  );
  const count = box.reduce((product, range) => product * (range.stop - range.start), 1);
  return taken(whole, shape, [{ box, start: 0, stop: count }]);
}

function taken(whole: Elements, shape: readonly number[], chunks: readonly Chunk[]): Elements {
  const { buffer, byteOffset, byteLength, BYTES_PER_ELEMENT: size } = whole;
  const bytes = takeChunks(new Uint8Array(buffer, byteOffset, byteLength), shape, chunks, size);
  if (whole instanceof Float32Array) return new Float32Array(bytes.buffer);
  if (whole instanceof Int32Array) return new Int32Array(bytes.buffer);
  return whole instanceof BigInt64Array ? new BigInt64Array(bytes.buffer) : bytes;
}

/** The place in the whole tensor of each element of a part, as flat indices. */
export function placesInWhole(
  shape: readonly number[],
  layout: Layout,
  places: RankRecord['places'],
): Int32Array {
  const count = shape.reduce((product, size) => product * size, 1);
  const all = Int32Array.from({ length: count }, (_, index) => index);
  const part = partOfWhole(all, shape, layout, places);
  return Int32Array.from(part, Number);
}

/** The index of an element by its place in row order. */
export function indexOf(place: number, shape: readonly number[]): readonly number[] {
  let rest = place;
  const index: number[] = [];
  for (const size of shape.toReversed()) {
    index.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return index;
}
