import { elementCount } from '../base/shape.ts';
import { noGrad } from '../graph/create-node.ts';
import type { PlaceOf } from '../layout/chunks.ts';
import type { Shape } from '../spec/dtype.ts';
import { reinterpret } from '../tensor/collectives.ts';
import { concat } from '../tensor/create.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { Sharding } from './axis-layout.ts';
import { partDim } from './part-shapes.ts';

/** The place of a rank among the ranks of an axis. */
export type Place = ReturnType<PlaceOf>;

/** Concatenates all parts. They have the same size, the last ones padded with zeros. Shape: whole -> padded. */
export function toParts(whole: Tensor, sharding: Sharding, parts: number): Tensor {
  if (sharding === 'flat') {
    const row = whole.reshape([whole.numel, ...whole.shape.slice(1).map(() => 1)]);
    return padTo(row, 0, Math.ceil(whole.numel / parts) * parts);
  }
  const { shard, sections } = sharding;
  if (sections !== undefined && sections.length > 1) {
    const places = Array.from({ length: parts }, (_, rank) => ({ size: parts, rank }));
    return concat(
      places.flatMap((place) => sectionParts(whole, shard, sections, place)),
      shard,
    );
  }
  return padTo(whole, shard, Math.ceil((whole.shape[shard] ?? 0) / parts) * parts);
}

/** Puts a tensor together from its concatenated parts. Shape: padded -> whole, of shape `shape`. */
export function fromParts(padded: Tensor, sharding: Sharding, parts: number, shape: Shape): Tensor {
  if (sharding === 'flat') return trimTo(padded, 0, elementCount(shape)).reshape(shape);
  const { shard, sections } = sharding;
  if (sections === undefined || sections.length === 1) {
    return trimTo(padded, shard, shape[shard] ?? 0);
  }
  const part = (padded.shape[shard] ?? 0) / parts;
  let offset = 0;
  const pieces = sections.flatMap((section) => {
    const start = offset;
    offset += section / parts;
    return Array.from({ length: parts }, (_, rank) =>
      padded.slice(shard, rank * part + start, rank * part + start + section / parts),
    );
  });
  return concat(pieces, shard);
}

/** Returns the part of a place, with padding. Shape: whole -> part. */
export function partOf(whole: Tensor, sharding: Sharding, place: Place): Tensor {
  const dim = partDim(sharding);
  if (sharding !== 'flat' && (sharding.sections?.length ?? 1) > 1) {
    return concat(sectionParts(whole, dim, sharding.sections ?? [], place), dim);
  }
  const padded = toParts(whole, sharding, place.size);
  const size = (padded.shape[dim] ?? 0) / place.size;
  return padded.slice(dim, place.rank * size, (place.rank + 1) * size);
}

/**
 * Declares the value varying, because ranks will take different parts of it, which the graph cannot see in the bounds
 * of a slice. No gradient flows through it. Shape: N -> N.
 */
export function asVarying(x: Tensor, axis: string): Tensor {
  const type = x.node.axisTypes?.on(axis);
  if (type !== 'replicate' && type !== 'invariant') return x;
  return noGrad(() => {
    const used = type === 'invariant' ? reinterpret(x, axis, 'invariant', 'replicate') : x;
    return reinterpret(used, axis, 'replicate', 'varying');
  });
}

/** Pads the end of a dim with zeros. */
export function padTo(x: Tensor, dim: number, size: number): Tensor {
  const missing = size - (x.shape[dim] ?? 0);
  if (missing === 0) return x;
  const none = x.shape.map(() => 0);
  return x.pad(none, none.with(dim, missing));
}

/** Cuts a dim off after `size` elements. */
export function trimTo(x: Tensor, dim: number, size: number): Tensor {
  return x.shape[dim] === size ? x : x.slice(dim, 0, size);
}

/** Returns the part that a place has of each section. */
function sectionParts(
  whole: Tensor,
  dim: number,
  sections: readonly number[],
  { size, rank }: Place,
): Tensor[] {
  let offset = 0;
  return sections.map((section) => {
    const own = section / size;
    const start = offset + rank * own;
    offset += section;
    return whole.slice(dim, start, start + own);
  });
}
