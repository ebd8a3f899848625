import { currentScope } from '../../ambient.ts';
import { computeDType, kindOf } from '../../base/dtype-kind.ts';
import { type DType, isHalfDType, type Shape } from '../../spec/dtype.ts';
import { autocastDType } from '../../graph/autocast.ts';
import { cast } from '../../graph/ops/elementwise.ts';
import { attention } from '../../graph/ops/attention.ts';
import { softmaxGrad } from '../../graph/ops/normalize.ts';
import { attentionScores, weighted, weightsOf } from '../../graph/ops/attention-parts.ts';
import type { Node } from '../../graph/node.ts';
import type { AttentionRequest } from '../../graph/sequence-part.ts';
import { broadcastsTo, formatShape, sizeAt } from '../../base/shape.ts';
import type { AttentionParams } from '../../spec/op.ts';
import { DTypeError, ShapeError } from '../../spec/errors.ts';
import { full } from '../../tensor/create.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { requireTensors } from '../../tensor/check-arguments.ts';
import { withOwnGradient } from '../../tensor/own-gradient.ts';
import { requireShape } from './require-shape.ts';
import { dropout } from './dropout.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { composed } from '../../realize/pending/small-values.ts';

/** Options of `scaledDotProductAttention`. */
export interface AttentionOptions {
  /** Whether query t sees only the keys 0 to t. Default: false. */
  readonly causal?: boolean;
  /**
   * A mask of bools (true: the query sees the key) or a mask that is added to the scores. It is broadcast to
   * [B, H, T, S].
   */
  readonly mask?: Tensor;
  /**
   * The first key that each query sees, and one more than the last, as for documents that are packed into one row, or
   * for sliding windows. Devices with kernels for attention skip the other keys.
   * Shape: i32 [B or 1, T, 2].
   */
  readonly keyRanges?: Tensor;
  /** The probability with which an attention weight is dropped. Default: 0. */
  readonly dropout?: number;
  /** The factor of the scores. Default: 1 / sqrt(D). */
  readonly scale?: number;
}

const operation = 'scaledDotProductAttention';

export const attentionRules: OptionRules<AttentionOptions> = {
  causal: option.flag,
  mask: option.instanceOf(Tensor),
  keyRanges: option.instanceOf(Tensor),
  dropout: option.fraction,
  scale: option.number,
};

/**
 * softmax(q kᵀ scale + mask) v (Vaswani et al. 2017). If there are fewer key heads than query heads, each key
 * head serves H / G consecutive query heads (Ainslie et al. 2023). A query that sees no key gets zeros. Devices
 * with kernels for attention do not keep the weights for the backward pass (Dao et al. 2022), unless weights
 * are dropped or the mask has a gradient.
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
  const sources = sizeAt(k.shape, 2);
  return composed(() => {
    const lower = ({ node, dtype }: Tensor): Node =>
      dtype === 'f64' ? node : cast(node, autocastDType() ?? dtype);
    const own = lower(q);
    const mask = maskOf(options, [batch, heads, targets, sources], computeDType(q.dtype));
    const ranges = options.keyRanges?.node;
    const params: AttentionParams = {
      causal: options.causal === true,
      hasKeyRanges: ranges !== undefined,
      scale: options.scale ?? 1 / Math.sqrt(width),
      rounding: roundingOf(own.dtype),
    };
    const request: AttentionRequest = {
      q: own,
      k: lower(k),
      v: lower(v),
      mask,
      ranges,
      params,
      dropout: options.dropout ?? 0,
    };
    return new Tensor(currentScope().sequencePart?.attend(request, attend) ?? attend(request));
  });
}

function attend({ q, k, v, mask, ranges, params, dropout: dropped }: AttentionRequest): Node {
  const operands = [q, k, v] as const;
  const limits = [mask, ranges].filter((limit) => limit !== undefined);
  // The op checks its inputs, also where dropout takes its place.
  const whole = attention(params, [...operands, ...limits]);
  return dropped > 0 ? withDropout(params, operands, { mask, ranges }, dropped) : whole;
}

function roundingOf(dtype: DType): AttentionParams['rounding'] {
  return isHalfDType(dtype) ? dtype : 'none';
}

/**
 * Attention with dropout, which needs a random number for each weight. So the whole matrix of weights is computed. It
 * is kept for the backward pass in the dtype of the values, and is all that backward reads.
 */
function withDropout(
  params: AttentionParams,
  [q, k, v]: readonly [Node, Node, Node],
  limits: { readonly mask: Node | undefined; readonly ranges: Node | undefined },
  probability: number,
): Node {
  const wide = (x: Node): Node => cast(x, computeDType(x.dtype));
  const scores = attentionScores(params, { q: wide(q), k: wide(k), ...limits });
  const weights = withOwnGradient(
    [scores],
    () => cast(weightsOf(scores, limits), v.dtype),
    (gradient, _, y) => [softmaxGrad(wide(y), wide(gradient))],
  );
  return weighted(dropout(new Tensor(weights), probability).node, v);
}

/** The mask as numbers that are added to the scores, with a size of 1 in dims where it is the same for all. */
function maskOf({ mask }: AttentionOptions, scores: Shape, dtype: DType): Node | undefined {
  if (mask === undefined) return undefined;
  requireMask(mask, scores);
  const leading = Array.from({ length: 4 - mask.shape.length }, () => 1);
  const aligned = mask.reshape([...leading, ...mask.shape]);
  const whole = aligned.expand([...aligned.shape.slice(0, 3), sizeAt(scores, 3)]);
  const added =
    whole.dtype === 'bool'
      ? whole.where(full([], 0, dtype), Number.NEGATIVE_INFINITY)
      : whole.to(dtype);
  return added.node;
}

function requireShapes(q: Tensor, k: Tensor, v: Tensor): void {
  requireShape({ operation, name: 'q', value: q }, ['B', 'H', 'T', 'D']);
  const [batch = 0, , , width = 0] = q.shape;
  // Keys and values of a single item are broadcast to all items.
  const items = k.shape[0] === 1 ? 'B' : (['items', batch] as const);
  const widths = ['features', width] as const;
  requireShape({ operation, name: 'k', value: k }, [items, 'G', 'S', widths]);
  const [, heads = 0, length = 0] = k.shape;
  const [groups, keys] = [['heads', heads] as const, ['keys', length] as const];
  requireShape({ operation, name: 'v', value: v }, [items, groups, keys, 'E']);
}

/** Throws DTypeError for a mask of integers, and ShapeError for one that does not broadcast to the scores. */
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
