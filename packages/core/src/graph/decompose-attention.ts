import { computeDType } from '../dtype.ts';
import { sizeAt } from '../shape.ts';
import type { Shape } from '../spec/dtype.ts';
import type { AttentionParams } from '../spec/op.ts';
import { matmul } from './build/contract.ts';
import { add, cast, equal, exp, lessEqual, log, scale, sub, where } from './build/elementwise.ts';
import { constant, constantLike, iota } from './build/leaf.ts';
import { expandReduced, reshape } from './build/movement.ts';
import { softmax, softmaxGrad } from './build/normalize.ts';
import { max, sum, sumTo } from './build/reduce.ts';
import type { Node } from './node.ts';

/** Operands in the dtype that is computed with. */
interface Operands {
  readonly q: Node;
  readonly k: Node;
  readonly mask: Node | undefined;
}

/** Where scores and weights have their keys. */
const keyDim = [3];

export function attentionParts(params: AttentionParams, inputs: readonly Node[]): Node {
  const [q, k, v, mask] = inputs;
  const weights = attentionWeights(params, operandsOf(q, k, mask));
  return cast(weighted(rounded(weights, params), wide(v)), given(v).dtype);
}

export function attentionLogSumExpParts(params: AttentionParams, inputs: readonly Node[]): Node {
  const [q, k, mask] = inputs;
  const scores = attentionScores(params, operandsOf(q, k, mask));
  const rows = scores.shape.slice(0, 3);
  const none = constant(Infinity, rows, scores.dtype);
  if (sizeAt(scores.shape, 3) === 0) return none;
  const { largest, isBlind } = largestOf(scores);
  // Where no key is seen, nothing may be subtracted from.
  const shift = where(isBlind, constantLike(largest, 0), largest);
  const powers = exp(sub(scores, expandReduced(shift, keyDim, scores)));
  return where(isBlind, none, add(log(sum(powers, keyDim)), shift));
}

/*
 * Gradients make the weights by the softmax that forward makes, so that a program that holds both has them once.
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
  const [q, k, v, dy, , , mask] = inputs;
  const weights = rounded(attentionWeights(params, operandsOf(q, k, mask)), params);
  const { shape, dtype } = given(v);
  const product = matmul(stacked(weights, shape), stacked(wide(dy), shape), true);
  return cast(sumTo(product, shape), dtype);
}

/** Gradients of the scores, without their factor. Shape: -> [B, G, H / G * T, S]. */
function stackedSlopes(params: AttentionParams, inputs: readonly Node[]): Node {
  const [q, k, v, dy, , , mask] = inputs;
  // Rounded weights are all that a program keeps of them then.
  const weights = rounded(attentionWeights(params, operandsOf(q, k, mask)), params);
  const { shape } = given(v);
  const owed = matmul(stacked(wide(dy), shape), wide(v), false, true);
  const slopes = softmaxGrad(weights, reshape(owed, weights.shape));
  return stacked(rounded(slopes, params), shape);
}

function attentionWeights(params: AttentionParams, operands: Operands): Node {
  return weightsOf(attentionScores(params, operands), operands.mask);
}

/** What queries see of keys; one whose scores are all masked sees nothing. Shape: [B, H, T, S] -> [B, H, T, S]. */
export function weightsOf(scores: Node, mask: Node | null | undefined): Node {
  if (!mask || sizeAt(scores.shape, 3) === 0) return softmax(scores);
  const isBlind = expandReduced(largestOf(scores).isBlind, keyDim, scores);
  const nothing = constantLike(scores, 0);
  // The softmax of a row that sees nothing is NaN, and so is all that comes back through it to a mask that is learnt.
  const weights = softmax(mask.requiresGrad ? where(isBlind, nothing, scores) : scores);
  return where(isBlind, nothing, weights);
}

function largestOf(scores: Node): { readonly largest: Node; readonly isBlind: Node } {
  const largest = max(scores, keyDim);
  return { largest, isBlind: equal(largest, constantLike(largest, Number.NEGATIVE_INFINITY)) };
}

/** Masks are added, not selected: an addition hands a gradient on as it is. Shape: -> [B, H, T, S]. */
export function attentionScores(
  { causal, scale: factor, rounding }: AttentionParams,
  { q, k, mask }: Operands,
): Node {
  // A product of values of 16 bits is one of their copies in f32: what is scaled first is none.
  const products =
    rounding === 'none'
      ? matmul(stacked(scale(q, factor), k.shape), k, false, true)
      : scale(matmul(stacked(q, k.shape), k, false, true), factor);
  const scores = reshape(products, [...q.shape.slice(0, 3), sizeAt(k.shape, 2)]);
  const visible = causal ? add(scores, causalMask(scores)) : scores;
  return mask === undefined ? visible : add(visible, mask);
}

/** 0 where query t sees key s <= t, and minus infinity elsewhere. Shape: scores [B, H, T, S] -> [1, 1, T, S]. */
export function causalMask({ shape, dtype }: Pick<Node, 'shape' | 'dtype'>): Node {
  const square = shape.slice(2);
  const seen = lessEqual(iota(square, 1), iota(square, 0));
  return reshape(
    where(seen, constant(0, square, dtype), constant(Number.NEGATIVE_INFINITY, square, dtype)),
    [1, 1, ...square],
  );
}

/** The weights times the values. Shape: weights [B, H, T, S], v [B', G, S, E] -> [B, H, T, E]. */
export function weighted(weights: Node, v: Node): Node {
  const product = matmul(stacked(weights, v.shape), v);
  return reshape(product, [...weights.shape.slice(0, 3), sizeAt(v.shape, 3)]);
}

/**
 * The query heads of a group stand below each other: one product for each group. Products of 16 bits are those whose operands
 * are copies of such values in f32, so these move first. Shape: x [B, H, T, N] -> [B, G, H / G * T, N].
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

/** In the dtype of the scores, with the digits that products are to have. */
function rounded(x: Node, { rounding }: AttentionParams): Node {
  return rounding === 'none' ? x : cast(cast(x, rounding), x.dtype);
}

function operandsOf(q: Node | undefined, k: Node | undefined, mask: Node | undefined): Operands {
  return { q: wide(q), k: wide(k), mask: mask && wide(mask) };
}

function wide(x: Node | undefined): Node {
  const node = given(x);
  return cast(node, computeDType(node.dtype));
}

function given(x: Node | undefined): Node {
  if (x === undefined) throw new RangeError('attention of fewer inputs than it has');
  return x;
}
