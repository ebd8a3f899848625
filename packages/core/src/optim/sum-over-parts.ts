import { sumOverAxes } from '../tensor/collectives.ts';
import type { Tensor } from '../tensor/tensor.ts';

/**
 * Returns a sum over a whole parameter, given the sum over this rank's part. Update rules that use norms or means need
 * it, because they get parts. `sum` may contain several sums. Shape: sum N -> N.
 */
export function sumOverParts({ shardedOver }: Pick<Tensor, 'shardedOver'>, sum: Tensor): Tensor {
  return sumOverAxes(sum, shardedOver);
}
