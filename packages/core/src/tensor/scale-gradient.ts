import { scale } from '../graph/ops/elementwise.ts';
import { Tensor } from './tensor.ts';
import { withOwnGradient } from './own-gradient.ts';

/** Returns the same value with a gradient that is multiplied by `factor`. Shape: N -> N. */
export function scaleGradient(x: Tensor, factor: number): Tensor {
  const { node } = x;
  return new Tensor(
    withOwnGradient(
      [node],
      () => node,
      (gradient) => [scale(gradient, factor)],
    ),
  );
}
