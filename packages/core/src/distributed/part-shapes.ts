import { elementCount, sizeAt } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';
import type { Sharding } from './axis-layout.ts';

// These functions are not in equal-parts.ts, so that a page that divides no tensor does not load the code that does.

/** Returns the dim along which the ranks' parts are concatenated. */
export function partDim(sharding: Sharding): number {
  return sharding === 'flat' ? 0 : sharding.shard;
}

/** Returns the shape of a part. Padding makes all parts as large as the largest one. Shape: whole -> part. */
export function partShape(whole: Shape, sharding: Sharding, parts: number): Shape {
  if (sharding === 'flat') {
    return [Math.ceil(elementCount(whole) / parts), ...whole.slice(1).map(() => 1)];
  }
  const { shard } = sharding;
  return whole.map((size, dim) => (dim === shard ? Math.ceil(size / parts) : size));
}

/** Returns the shape of all parts, concatenated. Shape: whole -> padded. */
export function paddedShape(whole: Shape, sharding: Sharding, parts: number): Shape {
  const dim = partDim(sharding);
  const part = partShape(whole, sharding, parts);
  return part.with(dim, sizeAt(part, dim) * parts);
}
