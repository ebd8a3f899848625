import { composed } from '../../realize/pending/small-values.ts';
import { formatShape, sameShape } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import { ShapeError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { requireTensors } from '../../tensor/check-arguments.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { requireShape } from './require-shape.ts';
import { lossRules, type LossOptions } from './losses.ts';
import { reduceLosses } from './reduction.ts';
import { requireSameShape } from './same-shape.ts';
import { widened } from './widened.ts';

/** Options of `cosineEmbeddingLoss`. */
export interface CosineEmbeddingLossOptions extends LossOptions {
  /** Vectors that should differ have no loss below this cosine. Default: 0. */
  readonly margin?: number;
}

/** Options of `tripletMarginLoss`. */
export interface TripletMarginLossOptions extends LossOptions {
  /** The difference by which the negative should be farther away than the positive. Default: 1. */
  readonly margin?: number;
  /** The exponent of the norm. Infinity gives the largest difference. Default: 2. */
  readonly p?: number;
  /** The number that is added to each difference. Default: 1e-6. */
  readonly eps?: number;
  /**
   * Whether the distance between the negative and the positive is used if it is smaller than that between the negative
   * and the anchor (Balntas et al. 2016). Default: false.
   */
  readonly swap?: boolean;
}

export const cosineRules: OptionRules<CosineEmbeddingLossOptions> = {
  ...lossRules,
  margin: option.number,
};
export const tripletRules: OptionRules<TripletMarginLossOptions> = {
  ...lossRules,
  margin: option.positive,
  p: option.positive,
  eps: option.number,
  swap: option.flag,
};

/** The number that is added to squared lengths, as in PyTorch. */
const SMALLEST_SQUARE = 1e-12;

/**
 * The loss of two vectors: 1 - cos if the target is 1, max(0, cos - margin) if it is -1, and 0 for any other
 * target.
 * Shape: a [N, D], b [N, D], target [N] -> [], or [N] for reduction 'none'; also [D], [D], [].
 */
export function cosineEmbeddingLoss(
  a: Tensor,
  b: Tensor,
  target: Tensor,
  options: CosineEmbeddingLossOptions = {},
): Tensor {
  const operation = 'cosineEmbeddingLoss';
  checkOptions(operation, options, cosineRules);
  requireSameShape(operation, a, b);
  requireVectors(operation, a);
  const { margin = 0, reduction } = options;
  const batch = a.shape.slice(0, -1).map((size) => ['items', size] as const);
  requireShape({ operation, name: 'target', value: target }, batch);
  return composed(() => {
    const [left, right] = [widened(a), widened(b)];
    const squares = [left, right].map((x) => x.square().sum(-1).add(SMALLEST_SQUARE));
    const length = squares.reduce((product, square) => product.mul(square)).sqrt();
    const cosine = left.mul(right).sum(-1).div(length);
    const alike = target.eq(1).where(cosine.neg().add(1), 0);
    const different = target.eq(-1).where(cosine.sub(margin).relu(), 0);
    return reduceLosses(alike.add(different), reduction);
  });
}

/**
 * max(0, margin + |anchor - positive| - |anchor - negative|) (Balntas et al. 2016), with the distances of
 * pairwiseDistance.
 * Shape: each [N, D] (or [D]) -> [], or [N] for reduction 'none'.
 */
export function tripletMarginLoss(
  anchor: Tensor,
  positive: Tensor,
  negative: Tensor,
  options: TripletMarginLossOptions = {},
): Tensor {
  const operation = 'tripletMarginLoss';
  checkOptions(operation, options, tripletRules);
  requireTensors(operation, { anchor, positive, negative });
  const other = [positive, negative].find(({ shape }) => !sameShape(shape, anchor.shape));
  if (other !== undefined) requireSameShape(operation, anchor, other);
  requireVectors(operation, anchor);
  const { margin = 1, p = 2, eps = 1e-6, swap = false, reduction } = options;
  return composed(() => {
    const near = distance(anchor, positive, p, eps);
    const away = distance(anchor, negative, p, eps);
    const far = swap ? away.minimum(distance(positive, negative, p, eps)) : away;
    return reduceLosses(near.sub(far).add(margin).relu(), reduction);
  });
}

/**
 * torch.nn.functional.pairwise_distance: the p-norm of a - b + eps over the last dim. Shape: N, N -> N without the last
 * dim.
 */
function distance(a: Tensor, b: Tensor, p: number, eps: number): Tensor {
  const difference = widened(a).sub(widened(b)).add(eps);
  if (p === 2) return safely(difference.square().sum(-1), (squares) => squares.sqrt());
  const sizes = difference.abs();
  if (p === Number.POSITIVE_INFINITY) return sizes.max(-1);
  if (p === 1) return sizes.sum(-1);
  const powers = safely(sizes, (size) => size.pow(p));
  return safely(powers.sum(-1), (sum) => sum.pow(1 / p));
}

/** A function that is 0 at 0, with a gradient of 0 there, like PyTorch's norm. Shape: N -> N. */
function safely(x: Tensor, of: (x: Tensor) => Tensor): Tensor {
  const isZero = x.eq(0);
  return isZero.where(0, of(isZero.where(1, x)));
}

function requireVectors(operation: string, { shape }: Tensor): void {
  if (shape.length === 1 || shape.length === 2) return;
  throw new ShapeError(
    {
      asked: `${operation} of shape ${formatShape(shape)}`,
      found: `${shape.length} dims`,
      todo: 'Use vectors of shape [N, D], or one of shape [D]',
    },
    { shape },
  );
}
