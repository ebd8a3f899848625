import { fromData, type MeshAxis, type ProcessGroup, type Tensor } from '@shardwise/core';
import type { Shape } from '@shardwise/core';

/** The mesh of the tests for this number of ranks. */
export function axesOf(size: number): readonly MeshAxis[] {
  if (size < 4 || size % 2 > 0) return [{ name: 'a', size }];
  return [
    { name: 'a', size: 2 },
    { name: 'b', size: size / 2 },
  ];
}

/** Returns deterministic values in [-1, 1) that differ for each seed. */
export function values(count: number, seed: number): Float32Array {
  let state = (seed * 2_654_435_761 + 12_345) | 0;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return state / 2 ** 31;
  });
}

export function randomTensor(shape: Shape, seed: number): Tensor {
  const count = shape.reduce((product, size) => product * size, 1);
  return fromData(values(count, seed), shape, 'f32');
}

/** Sums each element over the ranks. */
export async function sumOverRanks(
  terms: readonly number[],
  group: ProcessGroup,
): Promise<Float64Array> {
  const sums = Float64Array.from(terms);
  await group.allReduce({ bytes: new Uint8Array(sums.buffer), dtype: 'f64' }, 'sum');
  return sums;
}

/** Returns the largest error of an element, relative to the expected element if that is larger than 1. */
export async function difference(found: Tensor, expected: Tensor): Promise<number> {
  if (String(found.shape) !== String(expected.shape)) return Number.POSITIVE_INFINITY;
  const [a, b] = [await found.data(), await expected.data()];
  let worst = 0;
  b.forEach((value: number | bigint, index: number) => {
    const wanted = Number(value);
    const error = Math.abs(Number(a[index]) - wanted) / Math.max(1, Math.abs(wanted));
    worst = Number.isNaN(error) ? Number.POSITIVE_INFINITY : Math.max(worst, error);
  });
  return worst;
}
