import { attentionLimits, type AttentionOp } from '../../base/attention-dims.ts';
import { computeDType } from '../../base/dtype-kind.ts';
import { sizeAt } from '../../base/shape.ts';
import type { DType, Shape } from '../../spec/dtype.ts';
import type { AttentionParams } from '../../spec/op.ts';
import { matmul } from './contract.ts';
import {
  add,
  cast,
  equal,
  exp,
  less,
  lessEqual,
  log,
  logicalAnd,
  mul,
  scale,
  sub,
  where,
} from './elementwise.ts';
import { constant, constantLike, iota } from './leaf.ts';
import { expandReduced, reshape, sliceDim, sum, sumTo } from './movement.ts';
import { softmax, softmaxGrad } from './normalize.ts';
import { max } from './reduce.ts';
import type { Node } from '../node.ts';

/** The operands of attention, in the dtype that is computed with. */
interface Operands {
  readonly q: Node;
  readonly k: Node;
  readonly mask: Node | undefined;
  readonly ranges: Node | undefined;
}

/** The dim of the keys in scores and weights. */
const keyDim = [3];

export function attentionParts(params: AttentionParams, inputs: readonly Node[]): Node {
  const [, , v] = inputs;
  return cast(weighted(weightsIn('attention', params, inputs), wide(v)), given(v).dtype);
}

export function attentionLogSumExpParts(params: AttentionParams, inputs: readonly Node[]): Node {
  const scores = attentionScores(params, operandsOf('attentionLogSumExp', params, inputs));
  const rows = scores.shape.slice(0, 3);
  const none = constant(Infinity, rows, scores.dtype);
  if (sizeAt(scores.shape, 3) === 0) return none;
  const { largest, isBlind } = largestOf(scores);
  // The scores of a query that sees no key are all -Infinity. Subtracting their largest would make NaN, so 0 is used.
  const shift = where(isBlind, constantLike(largest, 0), largest);
  const powers = exp(sub(scores, expandReduced(shift, keyDim, scores)));
  return where(isBlind, none, add(log(sum(powers, keyDim)), shift));
}

/*
 * The gradients compute the weights by the same softmax as the forward pass, so that a program with both has it once.
 */

export function attentionQueryGradParts(params: AttentionParams, inputs: readonly Node[]): Node {
  const [q, k] = inputs;
  const slopes = stackedSlopes(params, inputs);
  return cast(
    reshape(scale(matmul(slopes, wide(k)), params.scale), given(q).shape),
    given(q).dtype,
  );
}

export function attentionKeyGradParts(params: AttentionParams, inputs: readonly Node[]): Node {
  const [q, k] = inputs;
  const slopes = stackedSlopes(params, inputs);
  const product = matmul(slopes, stacked(wide(q), given(k).shape), true);
  return cast(sumTo(scale(product, params.scale), given(k).shape), given(k).dtype);
}

export function attentionValueGradParts(params: AttentionParams, inputs: readonly Node[]): Node {
  const [, , v, dy] = inputs;
  const weights = weightsIn('attentionKeyGrad', params, inputs);
  const { shape, dtype } = given(v);
  const product = matmul(stacked(weights, shape), stacked(wide(dy), shape), true);
  return cast(sumTo(product, shape), dtype);
}

/** The gradients of the products q kᵀ, without the factor `scale`, stacked by group. Shape: -> [B, G, H / G * T, S]. */
function stackedSlopes(params: AttentionParams, inputs: readonly Node[]): Node {
  const [, , v, dy, , delta] = inputs;
  const weights = weightsIn('attentionKeyGrad', params, inputs);
  const { shape } = given(v);
  const owed = reshape(matmul(stacked(wide(dy), shape), wide(v), false, true), weights.shape);
  const slopes =
    params.keysArePart === true
      ? mul(weights, sub(owed, expandReduced(given(delta), keyDim, owed)))
      : softmaxGrad(weights, owed);
  return stacked(rounded(slopes, params), shape);
}

/** The rounded weights. softmaxGrad takes them too, so that a program need not keep the others. Shape: -> [B, H, T, S]. */
function weightsIn(op: AttentionOp, params: AttentionParams, inputs: readonly Node[]): Node {
  const operands = operandsOf(op, params, inputs);
  const scores = attentionScores(params, operands);
  const weights =
    params.keysArePart === true
      ? exp(sub(scores, expandReduced(given(inputs[4]), keyDim, scores)))
      : weightsOf(scores, operands);
  return rounded(weights, params);
}

/**
 * The weights: the softmax of the scores over the keys. They are zeros for a query whose scores are all masked.
 * Shape: scores [B, H, T, S] -> [B, H, T, S].
 */
export function weightsOf(scores: Node, { mask, ranges }: Pick<Operands, 'mask' | 'ranges'>): Node {
  if (!(mask || ranges) || sizeAt(scores.shape, 3) === 0) return softmax(scores);
  const isBlind = expandReduced(largestOf(scores).isBlind, keyDim, scores);
  const nothing = constantLike(scores, 0);
  // The softmax of a row that is all masked is NaN, and so would be gradients through it.
  const weights = softmax(where(isBlind, nothing, scores));
  return where(isBlind, nothing, weights);
}

function largestOf(scores: Node): { readonly largest: Node; readonly isBlind: Node } {
  const largest = max(scores, keyDim);
  return { largest, isBlind: equal(largest, constantLike(largest, Number.NEGATIVE_INFINITY)) };
}

/**
 * The scores q kᵀ scale plus the masks. Masks are added, and not applied by `where`, because an addition passes the
 * gradient on unchanged. Shape: -> [B, H, T, S].
 */
export function attentionScores(
  { causal, scale: factor, rounding }: AttentionParams,
  { q, k, mask, ranges }: Operands,
): Node {
  // Backends recognize a product of 16-bit values by its operands, which are casts of such values to f32. A scaled
  // operand is not a cast, so with rounding the product is scaled afterwards.
  const products =
    rounding === 'none'
      ? matmul(stacked(scale(q, factor), k.shape), k, false, true)
      : scale(matmul(stacked(q, k.shape), k, false, true), factor);
  const scores = reshape(products, [...q.shape.slice(0, 3), sizeAt(k.shape, 2)]);
  const masks = [causal && causalMask(scores), ranges && rangeMask(ranges, scores), mask];
  return masks.reduce<Node>((sum, each) => (each ? add(sum, each) : sum), scores);
}

/** A mask with 0 where query t sees key s <= t, and -Infinity elsewhere. Shape: scores [B, H, T, S] -> [1, 1, T, S]. */
function causalMask({ shape, dtype }: Node): Node {
  const square = [1, 1, ...shape.slice(2)];
  return maskOf(lessEqual(iota(square, 3), iota(square, 2)), dtype);
}

/** The same for ranges of keys. Shape: ranges [B', T, 2], scores [B, H, T, S] -> [B', 1, T, S]. */
function rangeMask(ranges: Node, { shape, dtype }: Node): Node {
  const [items = 0, rows = 0] = ranges.shape;
  const bound = (end: 0 | 1): Node =>
    reshape(sliceDim(ranges, 2, end, end + 1), [items, 1, rows, 1]);
  const keys = iota([1, 1, 1, sizeAt(shape, 3)], 3);
  return maskOf(logicalAnd(lessEqual(bound(0), keys), less(keys, bound(1))), dtype);
}

function maskOf(seen: Node, dtype: DType): Node {
  const number = (value: number): Node => constant(value, seen.shape, dtype);
  return where(seen, number(0), number(Number.NEGATIVE_INFINITY));
}

/** The weights times the values. Shape: weights [B, H, T, S], v [B', G, S, E] -> [B, H, T, E]. */
export function weighted(weights: Node, v: Node): Node {
  const product = matmul(stacked(weights, v.shape), v);
  return reshape(product, [...weights.shape.slice(0, 3), sizeAt(v.shape, 3)]);
}

/**
 * Stacks the rows of a group's query heads, so that each group needs one product. A cast from 16 bits to f32 is
 * applied after the stacking, because backends recognize a product of 16-bit values by operands that are such casts.
 * Shape: x [B, H, T, N] -> [B, G, H / G * T, N].
 */
function stacked(x: Node, shape: Shape): Node {
  const [, groups = 0] = shape;
  const [batch = 0, heads = 0, rows = 0, columns = 0] = x.shape;
  const [narrow] = x.inputs;
  if (x.op === 'cast' && narrow !== undefined && heads !== groups) {
    return cast(stacked(narrow, shape), x.dtype);
  }
  return reshape(x, [batch, groups, groups === 0 ? 0 : (heads / groups) * rows, columns]);
}

/** Rounds x to the dtype that operands of products are rounded to, and keeps it in the dtype of the scores. */
function rounded(x: Node, { rounding }: AttentionParams): Node {
  return rounding === 'none' ? x : cast(cast(x, rounding), x.dtype);
}

function operandsOf(op: AttentionOp, params: AttentionParams, inputs: readonly Node[]): Operands {
  const { mask, ranges } = attentionLimits(op, params, inputs);
  return { q: wide(inputs[0]), k: wide(inputs[1]), mask: mask && wide(mask), ranges };
}

function wide(x: Node | undefined): Node {
  const node = given(x);
  return cast(node, computeDType(node.dtype));
}

function given(x: Node | undefined): Node {
  if (x === undefined) throw new RangeError('no input');
  return x;
}
