import { sumOverAxes } from '../tensor/collectives.ts';
import type { Tensor } from '../tensor/tensor.ts';

/**
 * A sum over a whole parameter, of that over this rank's part: what an update rule needs where it takes norms or
 * means, since it is given parts. Also of several sums in one tensor. Shape: sum N -> N.
 */
export function sumOverParts({ shardedOver }: Pick<Tensor, 'shardedOver'>, sum: Tensor): Tensor {
  return sumOverAxes(sum, shardedOver);
}
