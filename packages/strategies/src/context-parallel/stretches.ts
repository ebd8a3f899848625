import { concat, type Tensor } from '@shardwise/core/extend';
import type { Stretch } from './sequence-cut.ts';

/** Joins stretches of a dim. Shape: [.., N, ..] -> [.., the sum of their lengths, ..]. */
export function takeStretches(x: Tensor, dim: number, stretches: readonly Stretch[]): Tensor {
  const [first, ...others] = stretches;
  if (first !== undefined && others.length === 0) {
    const { start, stop } = first;
    return start === 0 && stop === x.shape.at(dim) ? x : x.slice(dim, start, stop);
  }
  return concat(
    stretches.map(({ start, stop }) => x.slice(dim, start, stop)),
    dim,
  );
}
