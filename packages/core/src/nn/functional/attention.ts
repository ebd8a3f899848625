import { iota } from '../../graph/build/leaf.ts';
import { formatShape } from '../../shape.ts';
import type { DType } from '../../spec/dtype.ts';
import { ShapeError } from '../../spec/errors.ts';
import { full } from '../../tensor/create.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { dropout } from './dropout.ts';
import { checkOptions } from '../../spec/check-options.ts';
import * as option from '../../spec/option-rules.ts';
import type { OptionRules } from '../../spec/option-rules.ts';

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
  const [batch, heads, targets, width] = fourDims(q, 'q');
  const [, groups, sources] = fourDims(k, 'k');
  const [, , , valueWidth] = fourDims(v, 'v');
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
  const stacked = [batch, groups, (heads / groups) * targets];
  const scaled = q.mul(options.scale ?? 1 / Math.sqrt(width)).reshape([...stacked, width]);
  const scores = scaled.matmul(k, { transposeB: true }).reshape([batch, heads, targets, sources]);
  const weights = masked(scores, options).softmax();
  const dropped = options.dropout === undefined ? weights : dropout(weights, options.dropout);
  return dropped
    .reshape([...stacked, sources])
    .matmul(v)
    .reshape([batch, heads, targets, valueWidth]);
}

/** Masks are added, not selected: an addition hands the gradient on as it is. */
function masked(scores: Tensor, { causal = false, mask }: AttentionOptions): Tensor {
  const visible = causal ? scores.add(causalMask(scores)) : scores;
  if (mask === undefined) return visible;
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

function fourDims(x: Tensor, name: string): readonly [number, number, number, number] {
  const [batch, heads, length, width] = x.shape;
  if (
    x.ndim === 4 &&
    batch !== undefined &&
    heads !== undefined &&
    length !== undefined &&
    width !== undefined
  ) {
    return [batch, heads, length, width];
  }
  throw new ShapeError(
    {
      asked: `attention with ${name} of shape ${formatShape(x.shape)}`,
      found: `${x.ndim} dims`,
      todo: 'Use [batch, heads, length, head width]',
    },
    { shape: x.shape },
  );
}
