import type { CompositeOp, OpParams } from '../../spec/op.ts';
import {
  abs,
  add,
  div,
  equal,
  erf,
  exp,
  log,
  mul,
  neg,
  offset,
  scale,
  sigmoid,
  sqrt,
  square,
  sub,
  tanh,
  maximum,
  where,
} from '../build/elementwise.ts';
import { constantLike } from '../build/leaf.ts';
import { expandReduced } from '../build/movement.ts';
import { allDims, max, mean, sum } from '../build/reduce.ts';
import {
  attentionParts,
  attentionLogSumExpParts,
  attentionQueryGradParts,
  attentionKeyGradParts,
  attentionValueGradParts,
} from './decompose-attention.ts';
import { groupedMatmulParts, groupedMatmulWeightParts } from './decompose-grouped.ts';
import type { Node } from '../node.ts';

type Decompose<K extends CompositeOp> = (params: OpParams[K], inputs: readonly Node[]) => Node;

function inputAt(inputs: readonly Node[], index: number): Node {
  const node = inputs[index];
  if (node === undefined) throw new RangeError(`input ${index} of ${inputs.length}`);
  return node;
}

function lastDim(x: Node): [number] {
  return [x.shape.length - 1];
}

/** Expands a per-row value to x's shape. */
function perRow(value: Node, x: Node): Node {
  return expandReduced(value, lastDim(x), x);
}

/** Subtracts the largest element of each row. An empty row has none. */
function subtractMax(x: Node): Node {
  if (x.shape.at(-1) === 0) return x;
  return sub(x, perRow(max(x, lastDim(x)), x));
}

/** (x - mean) and 1 / sqrt(variance + eps), both of x's shape. */
function standardize(x: Node, eps: number): { centered: Node; inverse: Node } {
  const centered = sub(x, perRow(mean(x, lastDim(x)), x));
  const variance = mean(square(centered), lastDim(x));
  return { centered, inverse: perRow(inverseSqrt(offset(variance, eps)), x) };
}

function inverseRms(x: Node, eps: number): Node {
  return perRow(inverseSqrt(offset(mean(square(x), lastDim(x)), eps)), x);
}

function inverseSqrt(x: Node): Node {
  return div(constantLike(x, 1), sqrt(x));
}

function leadingDims(x: Node): number[] {
  return allDims(x).slice(0, -1);
}

/**
 * log(1 + x) for x >= 0. The sum 1 + x loses digits of x, and the factor x / ((1 + x) - 1) corrects for the loss
 * (Higham 2002, "Accuracy and stability of numerical algorithms", section 1.14.1).
 */
function log1p(x: Node): Node {
  const rounded = offset(x, 1);
  const one = constantLike(x, 1);
  const ratio = div(x, sub(rounded, one));
  return where(equal(rounded, one), x, mul(log(rounded), ratio));
}

const sqrtHalf = Math.SQRT1_2;
const tanhScale = Math.sqrt(2 / Math.PI);
const TANH_CUBIC = 0.044715;

function normalCdf(x: Node): Node {
  return scale(offset(erf(scale(x, sqrtHalf)), 1), 0.5);
}

function geluTanhInner(x: Node): Node {
  return tanh(scale(add(x, scale(mul(square(x), x), TANH_CUBIC)), tanhScale));
}

/** The gradient by x of a normalization whose output is normalized * weight. */
function normGrad(normalized: Node, inverse: Node, weighted: Node, subtractMean: boolean): Node {
  const projection = perRow(mean(mul(weighted, normalized), lastDim(weighted)), weighted);
  const removed = sub(weighted, mul(normalized, projection));
  return mul(
    inverse,
    subtractMean ? sub(removed, perRow(mean(weighted, lastDim(weighted)), weighted)) : removed,
  );
}

/** The meaning of each composite op, in primitives. The shapes are those of spec/op.ts. */
const decompositions: { readonly [K in CompositeOp]: Decompose<K> } = {
  sigmoid: (_, inputs) => {
    const x = inputAt(inputs, 0);
    return div(constantLike(x, 1), offset(exp(neg(x)), 1));
  },
  relu: (_, inputs) => maximum(inputAt(inputs, 0), constantLike(inputAt(inputs, 0), 0)),
  silu: (_, inputs) => {
    const x = inputAt(inputs, 0);
    return mul(x, sigmoid(x));
  },
  softplus: (_, inputs) => {
    const x = inputAt(inputs, 0);
    return add(maximum(x, constantLike(x, 0)), log1p(exp(neg(abs(x)))));
  },
  gelu: ({ approximate }, inputs) => {
    const x = inputAt(inputs, 0);
    if (approximate === 'none') return mul(x, normalCdf(x));
    return mul(scale(x, 0.5), offset(geluTanhInner(x), 1));
  },
  geluGrad: ({ approximate }, inputs) => {
    const [x, dy] = [inputAt(inputs, 0), inputAt(inputs, 1)];
    if (approximate === 'none') {
      const density = scale(exp(scale(square(x), -0.5)), 1 / Math.sqrt(2 * Math.PI));
      return mul(dy, add(normalCdf(x), mul(x, density)));
    }
    const t = geluTanhInner(x);
    const slope = scale(offset(scale(square(x), 3 * TANH_CUBIC), 1), tanhScale);
    const inner = mul(mul(scale(x, 0.5), sub(constantLike(t, 1), square(t))), slope);
    return mul(dy, add(scale(offset(t, 1), 0.5), inner));
  },
  softmax: (_, inputs) => {
    const e = exp(subtractMax(inputAt(inputs, 0)));
    return div(e, perRow(sum(e, lastDim(e)), e));
  },
  softmaxGrad: (_, inputs) => {
    const [y, dy] = [inputAt(inputs, 0), inputAt(inputs, 1)];
    return mul(y, sub(dy, perRow(sum(mul(y, dy), lastDim(y)), y)));
  },
  logSoftmax: (_, inputs) => {
    const shifted = subtractMax(inputAt(inputs, 0));
    return sub(shifted, perRow(log(sum(exp(shifted), lastDim(shifted))), shifted));
  },
  logSoftmaxGrad: (_, inputs) => {
    const [y, dy] = [inputAt(inputs, 0), inputAt(inputs, 1)];
    return sub(dy, mul(exp(y), perRow(sum(dy, lastDim(dy)), y)));
  },
  layerNorm: ({ eps }, inputs) => {
    const { centered, inverse } = standardize(inputAt(inputs, 0), eps);
    return add(mul(mul(centered, inverse), inputAt(inputs, 1)), inputAt(inputs, 2));
  },
  layerNormInputGrad: ({ eps }, inputs) => {
    const { centered, inverse } = standardize(inputAt(inputs, 0), eps);
    return normGrad(
      mul(centered, inverse),
      inverse,
      mul(inputAt(inputs, 2), inputAt(inputs, 1)),
      true,
    );
  },
  layerNormWeightGrad: ({ eps }, inputs) => {
    const { centered, inverse } = standardize(inputAt(inputs, 0), eps);
    return sum(mul(inputAt(inputs, 1), mul(centered, inverse)), leadingDims(inputAt(inputs, 1)));
  },
  rmsNorm: ({ eps }, inputs) => {
    const x = inputAt(inputs, 0);
    return mul(mul(x, inverseRms(x, eps)), inputAt(inputs, 1));
  },
  rmsNormInputGrad: ({ eps }, inputs) => {
    const x = inputAt(inputs, 0);
    const inverse = inverseRms(x, eps);
    return normGrad(mul(x, inverse), inverse, mul(inputAt(inputs, 2), inputAt(inputs, 1)), false);
  },
  rmsNormWeightGrad: ({ eps }, inputs) => {
    const [x, dy] = [inputAt(inputs, 0), inputAt(inputs, 1)];
    return sum(mul(dy, mul(x, inverseRms(x, eps))), leadingDims(dy));
  },
  groupedMatmul: ({ transposeB }, inputs) =>
    groupedMatmulParts(inputAt(inputs, 0), inputAt(inputs, 1), inputAt(inputs, 2), transposeB),
  groupedMatmulWeight: (_, inputs) =>
    groupedMatmulWeightParts(inputAt(inputs, 0), inputAt(inputs, 1), inputAt(inputs, 2)),
  attention: attentionParts,
  attentionLogSumExp: attentionLogSumExpParts,
  attentionQueryGrad: attentionQueryGradParts,
  attentionKeyGrad: attentionKeyGradParts,
  attentionValueGrad: attentionValueGradParts,
};

/** Builds a composite op from primitives, with `inputs` in the place of the node's own inputs. */
export function decompose<K extends CompositeOp>(
  op: K,
  params: OpParams[K],
  inputs: readonly Node[],
): Node {
  return decompositions[op](params, inputs);
}
