import { autocastDType } from '../../graph/autocast.ts';
import type { Node } from '../../graph/node.ts';
import { isHalfDType } from '../../spec/dtype.ts';
import { resultDType } from '../../tensor/promotion.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { lowered } from './lowered.ts';

/** A product that can be built in two ways: with its result in the operands' dtype, or as f32 sums. */
export interface BiasedProduct {
  readonly x: Tensor;
  /** The bias, in a shape that broadcasts to the product. */
  readonly bias: Tensor;
  readonly rounded: () => Node;
  readonly sums: () => Node;
}

/**
 * Adds a bias to a product. With 16-bit operands, the bias is added to the f32 sums, so that there is only one
 * rounding, as in PyTorch. Shape: -> that of the product.
 */
export function withBias({ x, bias, rounded, sums }: BiasedProduct): Tensor {
  const half = autocastDType();
  if (half === null && !isHalfDType(x.dtype)) return new Tensor(rounded()).add(bias);
  return new Tensor(sums()).add(lowered(bias)).to(half ?? resultDType([x, bias]));
}
