import { autocastDType } from '../../graph/autocast.ts';
import type { Node } from '../../graph/node.ts';
import { isHalfDType } from '../../spec/dtype.ts';
import { resultDType } from '../../tensor/promotion.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { lowered } from './lowered.ts';

/** One product, built with its result in the operands' dtype, or as f32 sums. */
export interface BiasedProduct {
  readonly x: Tensor;
  /** As it broadcasts to the product. */
  readonly bias: Tensor;
  readonly rounded: () => Node;
  readonly sums: () => Node;
}

/**
 * Of operands of 16 bits, the bias is added to the f32 sums, so that one rounding is left, as in PyTorch. Shape: ->
 * that of the product.
 */
export function withBias({ x, bias, rounded, sums }: BiasedProduct): Tensor {
  const half = autocastDType();
  if (half === null && !isHalfDType(x.dtype)) return new Tensor(rounded()).add(bias);
  return new Tensor(sums()).add(lowered(bias)).to(half ?? resultDType([x, bias]));
}
