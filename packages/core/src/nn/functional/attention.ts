import { kindOf } from '../../dtype.ts';
import { autocastDType } from '../../graph/autocast.ts';
import { matmul, matmulSums } from '../../graph/build/contract.ts';
import { cast, scale } from '../../graph/build/elementwise.ts';
import { iota } from '../../graph/build/leaf.ts';
import { softmax, softmaxGrad } from '../../graph/build/normalize.ts';
import { broadcastsTo, formatShape, sizeAt } from '../../shape.ts';
import { type DType, type HalfDType, isHalfDType, type Shape } from '../../spec/dtype.ts';
import { DTypeError, ShapeError } from '../../spec/errors.ts';
import { full } from '../../tensor/create.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { requireTensors } from '../../tensor/check-arguments.ts';
import { withOwnGradient } from '../../tensor/own-gradient.ts';
import { requireShape } from '../require-shape.ts';
import { dropout } from './dropout.ts';
import { checkOptions } from '../../spec/check-options.ts';
import * as option from '../../spec/option-rules.ts';
import type { OptionRules } from '../../spec/option-rules.ts';
import { composed } from '../../realize/small-values.ts';

export interface AttentionOptions {
  /** Query t sees the keys 0 … t only; default false. */
  readonly causal?: boolean;
  /** Bool (true: may see) or an additive mask, broadcast to [B, H, T, S]. */
  readonly mask?: Tensor;
  /** Probability of dropping an attention weight; default 0. */
  readonly dropout?: number;
  /** Factor of the scores; default 1 / sqrt(D). */
  readonly scale?: number;
}

const operation = 'scaledDotProductAttention';

export const attentionRules: OptionRules<AttentionOptions> = {
  causal: option.flag,
  mask: option.instanceOf(Tensor),
  dropout: option.share,
  scale: option.number,
};

/**
 * softmax(q kᵀ scale + mask) v (Vaswani et al. 2017). Where there are fewer key heads than query
 * heads, each serves H / G query heads that follow each other (Ainslie et al. 2023).
 * Shape: q [B, H, T, D], k [B, G, S, D], v [B, G, S, E] -> [B, H, T, E]. Throws ShapeError.
 */
export function scaledDotProductAttention(
  q: Tensor,
  k: Tensor,
  v: Tensor,
  options: AttentionOptions = {},
): Tensor {
  checkOptions('scaledDotProductAttention', options, attentionRules);
  requireShapes(q, k, v);
  const [batch = 0, heads = 0, targets = 0, width = 0] = q.shape;
  const [, groups = 0, sources = 0] = k.shape;
  const valueWidth = sizeAt(v.shape, 3);
  if (heads % groups !== 0) {
    throw new ShapeError(
      {
        asked: `attention of ${heads} query heads over ${groups} key heads`,
        found: 'no whole number of query heads per key head',
        todo: 'Make the number of query heads a multiple of the key heads',
      },
      { q: q.shape, k: k.shape },
    );
  }
  // The query heads of a group stand below each other: one product per group, and no copies of k and v.
  return composed(() => {
    const stacked = [batch, groups, (heads / groups) * targets];
    const factor = options.scale ?? 1 / Math.sqrt(width);
    const half = autocastDType() ?? (isHalfDType(q.dtype) ? q.dtype : null);
    const products =
      half === null
        ? matmul(q.mul(factor).reshape([...stacked, width]).node, k.node, false, true)
        : scale(matmulSums(q.reshape([...stacked, width]).node, k.node, false, true), factor);
    const scores = masked(new Tensor(products).reshape([batch, heads, targets, sources]), options);
    const weights = half === null ? scores.softmax() : halfSoftmax(scores, half);
    const dropped = options.dropout === undefined ? weights : dropout(weights, options.dropout);
    return dropped
      .reshape([...stacked, sources])
      .matmul(v)
      .reshape([batch, heads, targets, valueWidth]);
  });
}

/**
 * The softmax of f32 scores, rounded: the product with the values reads 16 bits of it, and so does backward, which has
 * no other copy. Shape: N -> N.
 */
function halfSoftmax(scores: Tensor, dtype: HalfDType): Tensor {
  return new Tensor(
    withOwnGradient(
      [scores.node],
      () => cast(softmax(scores.node), dtype),
      (gradient, _, y) => [softmaxGrad(cast(y, 'f32'), cast(gradient, 'f32'))],
    ),
  );
}

/** Masks are added, not selected: an addition hands the gradient on as it is. */
function masked(scores: Tensor, { causal = false, mask }: AttentionOptions): Tensor {
  const visible = causal ? scores.add(causalMask(scores)) : scores;
  if (mask === undefined) return visible;
  requireMask(mask, scores.shape);
  return visible.add(mask.dtype === 'bool' ? additive(mask, scores.dtype) : mask);
}

function causalMask({ shape, dtype }: Tensor): Tensor {
  const square = shape.slice(-2);
  const target = new Tensor(iota(square, 0));
  const source = new Tensor(iota(square, 1));
  return additive(source.le(target), dtype);
}

function additive(visible: Tensor, dtype: DType): Tensor {
  return visible.where(full([], 0, dtype), Number.NEGATIVE_INFINITY);
}

function requireShapes(q: Tensor, k: Tensor, v: Tensor): void {
  requireShape({ operation, name: 'q', value: q }, ['B', 'H', 'T', 'D']);
  const [batch = 0, , , width = 0] = q.shape;
  // One for all items is broadcast.
  const items = k.shape[0] === 1 ? 'B' : (['items', batch] as const);
  const widths = ['features', width] as const;
  requireShape({ operation, name: 'k', value: k }, [items, 'G', 'S', widths]);
  const [, heads = 0, length = 0] = k.shape;
  const [groups, keys] = [['heads', heads] as const, ['keys', length] as const];
  requireShape({ operation, name: 'v', value: v }, [items, groups, keys, 'E']);
}

/** A mask that broadcasts to the scores, and would not make them larger. */
function requireMask(mask: Tensor, scores: Shape): void {
  requireTensors(operation, { mask });
  if (mask.dtype !== 'bool' && kindOf(mask.dtype) !== 'float') {
    throw new DTypeError(
      {
        asked: `${operation} with a mask of ${mask.dtype}`,
        found: 'integers, which would be added to the scores',
        todo: 'Say with bools what may be seen, as mask.gt(0), or give floats to add',
      },
      { dtype: mask.dtype },
    );
  }
  if (broadcastsTo(mask.shape, scores)) return;
  throw new ShapeError(
    {
      asked: `${operation} with a mask of shape ${formatShape(mask.shape)}`,
      found: `scores of shape ${formatShape(scores)}, [batch, heads, queries, keys], to which it does not broadcast`,
      todo: `Use sizes of 1 or those of the scores, as [${scores.slice(-2).join(', ')}] for one mask for all`,
    },
    { mask: mask.shape, scores },
  );
}
