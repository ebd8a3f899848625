import { createNode } from '../create-node.ts';
import { rowVector, rowwise as rows } from '../infer-checks.ts';
import { none, type Node } from '../node.ts';
import { type CompositeEntries, rowwise } from '../op-entry.ts';
import { add, div, exp, log, mul, offset, sqrt, square, sub } from './elementwise.ts';
import { constantLike } from './leaf.ts';
import { allDims, expandReduced, sum } from './movement.ts';
import { max, mean } from './reduce.ts';

/** Functions of rows, which are along the last dim. */
export const normalizeOps: CompositeEntries<
  | 'softmax'
  | 'softmaxGrad'
  | 'logSoftmax'
  | 'logSoftmaxGrad'
  | 'layerNorm'
  | 'layerNormInputGrad'
  | 'layerNormWeightGrad'
  | 'rmsNorm'
  | 'rmsNormInputGrad'
  | 'rmsNormWeightGrad'
> = {
  softmax: {
    ...rowwise,
    infer: rows([], []),
    decompose: (_, x) => {
      const e = exp(subtractMax(x));
      return div(e, perRow(sum(e, lastDim(e)), e));
    },
    gradient: (_, gy, y) => [softmaxGrad(y, gy)],
  },
  softmaxGrad: {
    ...rowwise,
    linearIn: [[1]],
    infer: rows([], [1]),
    decompose: (_, y, dy) => mul(y, sub(dy, perRow(sum(mul(y, dy), lastDim(y)), y))),
    gradient: 'throughDecomposition',
  },
  logSoftmax: {
    ...rowwise,
    infer: rows([], []),
    decompose: (_, x) => {
      const shifted = subtractMax(x);
      return sub(shifted, perRow(log(sum(exp(shifted), lastDim(shifted))), shifted));
    },
    gradient: (_, gy, y) => [
      createNode(normalizeOps.logSoftmaxGrad, 'logSoftmaxGrad', none, [y, gy]),
    ],
  },
  logSoftmaxGrad: {
    ...rowwise,
    linearIn: [[1]],
    infer: rows([], [1]),
    decompose: (_, y, dy) => sub(dy, mul(exp(y), perRow(sum(dy, lastDim(dy)), y))),
    gradient: 'throughDecomposition',
  },
  layerNorm: {
    ...rowwise,
    linearIn: [[1, 2]],
    dims: 'normalized',
    infer: rows([1, 2], []),
    decompose: ({ eps }, x, weight, bias) => {
      const { centered, inverse } = standardize(x, eps);
      return add(mul(mul(centered, inverse), weight), bias);
    },
    gradient: ({ params }, gy, _, x, weight) => [
      createNode(normalizeOps.layerNormInputGrad, 'layerNormInputGrad', params, [x, weight, gy]),
      createNode(normalizeOps.layerNormWeightGrad, 'layerNormWeightGrad', params, [x, gy]),
      sum(gy, leadingDims(gy)),
    ],
  },
  layerNormInputGrad: {
    ...rowwise,
    linearIn: [[1], [2]],
    dims: 'normalized',
    infer: rows([1], [2]),
    decompose: ({ eps }, x, weight, dy) => {
      const { centered, inverse } = standardize(x, eps);
      return normGrad(mul(centered, inverse), inverse, mul(dy, weight), true);
    },
    gradient: 'throughDecomposition',
  },
  layerNormWeightGrad: {
    ...rowwise,
    linearIn: [[1]],
    dims: 'normalized',
    infer: rowVector,
    decompose: ({ eps }, x, dy) => {
      const { centered, inverse } = standardize(x, eps);
      return sum(mul(dy, mul(centered, inverse)), leadingDims(dy));
    },
    gradient: 'throughDecomposition',
  },
  rmsNorm: {
    ...rowwise,
    linearIn: [[1]],
    dims: 'normalized',
    infer: rows([1], []),
    decompose: ({ eps }, x, weight) => mul(mul(x, inverseRms(x, eps)), weight),
    gradient: ({ params }, gy, _, x, weight) => [
      createNode(normalizeOps.rmsNormInputGrad, 'rmsNormInputGrad', params, [x, weight, gy]),
      createNode(normalizeOps.rmsNormWeightGrad, 'rmsNormWeightGrad', params, [x, gy]),
    ],
  },
  rmsNormInputGrad: {
    ...rowwise,
    linearIn: [[1], [2]],
    dims: 'normalized',
    infer: rows([1], [2]),
    decompose: ({ eps }, x, weight, dy) => {
      const inverse = inverseRms(x, eps);
      return normGrad(mul(x, inverse), inverse, mul(dy, weight), false);
    },
    gradient: 'throughDecomposition',
  },
  rmsNormWeightGrad: {
    ...rowwise,
    linearIn: [[1]],
    dims: 'normalized',
    infer: rowVector,
    decompose: ({ eps }, x, dy) => sum(mul(dy, mul(x, inverseRms(x, eps))), leadingDims(dy)),
    gradient: 'throughDecomposition',
  },
};

function lastDim(x: Node): [number] {
  return [x.shape.length - 1];
}

function leadingDims(x: Node): number[] {
  return allDims(x).slice(0, -1);
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

/** The gradient by x of a normalization whose output is normalized * weight. */
function normGrad(normalized: Node, inverse: Node, weighted: Node, subtractMean: boolean): Node {
  const projection = perRow(mean(mul(weighted, normalized), lastDim(weighted)), weighted);
  const removed = sub(weighted, mul(normalized, projection));
  return mul(
    inverse,
    subtractMean ? sub(removed, perRow(mean(weighted, lastDim(weighted)), weighted)) : removed,
  );
}

/** Runs over the last dim. Shape: [.., D] -> [.., D]. */
export function softmax(x: Node): Node {
  return createNode(normalizeOps.softmax, 'softmax', none, [x]);
}

/** The gradient of softmax, from its result y. Shape: y [.., D], dy [.., D] -> [.., D]. */
export function softmaxGrad(y: Node, dy: Node): Node {
  return createNode(normalizeOps.softmaxGrad, 'softmaxGrad', none, [y, dy]);
}

/** Runs over the last dim. Shape: [.., D] -> [.., D]. */
export function logSoftmax(x: Node): Node {
  return createNode(normalizeOps.logSoftmax, 'logSoftmax', none, [x]);
}

/** Takes the biased variance of the last dim (Ba et al. 2016). Shape: x [.., D], weight [D], bias [D] -> [.., D]. */
export function layerNorm(x: Node, weight: Node, bias: Node, eps: number): Node {
  return createNode(normalizeOps.layerNorm, 'layerNorm', { eps }, [x, weight, bias]);
}

/** Runs over the last dim (Zhang and Sennrich 2019). Shape: x [.., D], weight [D] -> [.., D]. */
export function rmsNorm(x: Node, weight: Node, eps: number): Node {
  return createNode(normalizeOps.rmsNorm, 'rmsNorm', { eps }, [x, weight]);
}
