import { sumOverAxes } from '../tensor/collectives.ts';
import type { Tensor } from '../tensor/tensor.ts';

/**
 * A sum over a whole parameter, from the sum over this rank's part. An update rule that uses norms or means
 * needs it, because it gets parts. `sum` may contain several sums. Shape: sum N -> N.
 */
export function sumOverParts({ shardedOver }: Pick<Tensor, 'shardedOver'>, sum: Tensor): Tensor {
  return sumOverAxes(sum, shardedOver);
}
