import { elementCount, type Shape } from '@shardwise/core/extend';
import type { Sharding } from './axis-layout.ts';

// Apart from the tensors of `equal-parts`, which a page that divides nothing does not load.

/** The dim along which the ranks' parts stand behind each other. */
export function partDim(sharding: Sharding): number {
  return sharding === 'flat' ? 0 : sharding.shard;
}

/** The shape of a part: all are as large as the largest, by padding. Shape: whole -> part. */
export function partShape(whole: Shape, sharding: Sharding, parts: number): Shape {
  if (sharding === 'flat') {
    return [Math.ceil(elementCount(whole) / parts), ...whole.slice(1).map(() => 1)];
  }
  const { shard } = sharding;
  return whole.map((size, dim) => (dim === shard ? Math.ceil(size / parts) : size));
}

/** The shape of all parts behind each other. Shape: whole -> padded. */
export function paddedShape(whole: Shape, sharding: Sharding, parts: number): Shape {
  const dim = partDim(sharding);
  return partShape(whole, sharding, parts).map((size, at) => (at === dim ? size * parts : size));
}
