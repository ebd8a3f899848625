import { random } from '../../graph/ops/leaf.ts';
import { nextKey } from '../../random/keys.ts';
import type { Shape } from '../../spec/dtype.ts';
import { Tensor } from '../../tensor/tensor.ts';

/** Random numbers above 0 and below 1, which differ in each run. Shape: -> f32 shape. */
export function randomShares(shape: Shape): Tensor {
  // The numbers have 23 bits and are shifted by half a step, so that neither end is reached and f32 holds every value.
  const bits = new Tensor(random(nextKey().node, shape));
  return bits
    .to('f32')
    .mul(2 ** -32)
    .add(0.5)
    .mul(1 - 2 ** -22)
    .add(2 ** -23);
}

/**
 * Random numbers of the Gumbel distribution. Adding them to logits and taking the largest sum draws from the softmax of
 * the logits. Shape: -> f32 shape.
 */
export function gumbel(shape: Shape): Tensor {
  return randomShares(shape).log().neg().log().neg();
}
