import { random } from '../../graph/build/leaf.ts';
import { nextKey } from '../../random/keys.ts';
import type { Shape } from '../../spec/dtype.ts';
import { Tensor } from '../../tensor/tensor.ts';

/** Above 0 and below 1, and other numbers in each run. Shape: -> f32 shape. */
export function randomShares(shape: Shape): Tensor {
  // 23 bits and a half step: neither end is met, and f32 holds every value.
  const bits = new Tensor(random(nextKey().node, shape));
  return bits
    .to('f32')
    .mul(2 ** -32)
    .add(0.5)
    .mul(1 - 2 ** -22)
    .add(2 ** -23);
}

/**
 * Numbers of the Gumbel distribution: the largest of logits with them added is drawn from their softmax. Shape: -> f32
 * shape.
 */
export function gumbel(shape: Shape): Tensor {
  return randomShares(shape).log().neg().log().neg();
}
