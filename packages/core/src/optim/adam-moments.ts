import type { Tensor } from '../tensor/tensor.ts';
import { Scalar } from './scalar.ts';

/** The running means of Adam, computed in the order of operations of PyTorch's single-tensor form. */
export interface AdamMoments {
  /** Returns the next running means. Shapes: mean N, square N, gradient N -> N. */
  readonly next: (
    mean: Tensor,
    square: Tensor,
    gradient: Tensor,
  ) => { readonly mean: Tensor; readonly square: Tensor };
  /** sqrt(square) + eps, where square is corrected for its start at zero. Shape: N -> N. */
  readonly denominator: (square: Tensor) => Tensor;
}

export function adamMoments(
  { betas, eps }: { readonly betas: readonly [number, number]; readonly eps: number },
  steps: number,
): AdamMoments {
  const [beta1, beta2] = betas;
  const take1 = new Scalar(1 - beta1);
  const keep2 = new Scalar(beta2);
  const take2 = new Scalar(1 - beta2);
  const correction2 = new Scalar(Math.sqrt(1 - beta2 ** steps));
  const epsilon = new Scalar(eps);
  return {
    next: (mean, square, gradient) => {
      const { shape } = gradient;
      return {
        mean: mean.add(gradient.sub(mean).mul(take1.of(shape))),
        square: square.mul(keep2.of(shape)).add(gradient.mul(take2.of(shape)).mul(gradient)),
      };
    },
    denominator: (square) =>
      square.sqrt().div(correction2.of(square.shape)).add(epsilon.of(square.shape)),
  };
}
