import { kindOf } from '../base/dtype-kind.ts';
import { elementCount, sizeAt } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';
import type { CollectiveOp, CompositeOp, Op } from '../spec/op.ts';
import { collectiveRules } from './collective-rules.ts';
import { conv2d, conv2dInput, conv2dWeight, matmul } from '../graph/build/contract.ts';
import {
  cast,
  cos,
  div,
  equal,
  exp,
  less,
  lessEqual,
  log,
  logicalAnd,
  mul,
  neg,
  offset,
  pow,
  scale,
  sigmoid,
  sign,
  sin,
  square,
  sub,
  truncate,
  where,
} from '../graph/build/elementwise.ts';
import { gather, indexSelect, indexAdd, scatter, scatterAdd } from '../graph/build/index-ops.ts';
import { constant, constantLike, iota } from '../graph/build/leaf.ts';
import {
  expandReduced,
  inverseOrder,
  pad,
  permute,
  reshape,
  sliceDim,
} from '../graph/build/movement.ts';
import { softmaxGrad } from '../graph/build/normalize.ts';
import { allDims, cumsum, sum, sumTo } from '../graph/build/reduce.ts';
import { asGradientOf } from '../graph/collective-identity.ts';
import { createNode } from '../graph/create-node.ts';
import { none, type Node } from '../graph/node.ts';
import { decompose } from '../graph/decompose/decompose.ts';
import type { GradientRule } from './gradient-rule.ts';
import { attentionGradient } from './attention-rule.ts';
import { groupedMatmulGradient, groupedMatmulWeightGradient } from './grouped-matmul-rules.ts';
import { walkBackward } from './walk.ts';

function inputAt(node: Node, index: number): Node {
  const input = node.inputs[index];
  if (input === undefined) throw new RangeError(`input ${index} of ${node.op}`);
  return input;
}

const noGradient = (node: Node): readonly null[] => node.inputs.map(() => null);

function zeros(like: Node): Node {
  return constantLike(like, 0);
}

/**
 * The gradient goes to the larger (or smaller) of two values. Equal values share it. If one of them is NaN, both get
 * all of it, as in PyTorch.
 */
function chooseGradient(node: Node, gradient: Node, larger: boolean): Node[] {
  const [a, b] = [inputAt(node, 0), inputAt(node, 1)];
  const shared = where(equal(a, b), scale(gradient, 0.5), gradient);
  const part = (lost: Node): Node => where(lost, zeros(gradient), shared);
  const aLess = less(a, b);
  const bLess = less(b, a);
  return larger ? [part(aLess), part(bLess)] : [part(bLess), part(aLess)];
}

/** The gradients of a product of 16-bit operands are computed from 16-bit gradients, also if its result is f32 sums. */
function matmulGradient(node: Node<'matmul'>, owed: Node): Node[] {
  const { transposeA, transposeB } = node.params;
  const [a, b] = [inputAt(node, 0), inputAt(node, 1)];
  const gradient = cast(owed, a.dtype);
  const gradientA = transposeA
    ? matmul(b, gradient, transposeB, true)
    : matmul(gradient, b, false, !transposeB);
  return [sumTo(gradientA, a.shape), weightGradient(a, b, gradient, transposeA, transposeB)];
}

function weightGradient(
  a: Node,
  b: Node,
  gradient: Node,
  transposeA: boolean,
  transposeB: boolean,
): Node {
  // If a batch shares the weight, one product over all rows replaces a product for each batch item and their sum.
  if (b.shape.length === 2 && a.shape.length > 2 && !transposeA) {
    const rows = (x: Node): Node => {
      const columns = sizeAt(x.shape, x.shape.length - 1);
      return reshape(x, [elementCount(x.shape.slice(0, -1)), columns]);
    };
    return transposeB
      ? matmul(rows(gradient), rows(a), true, false)
      : matmul(rows(a), rows(gradient), true, false);
  }
  const full = transposeB
    ? matmul(gradient, a, true, transposeA)
    : matmul(a, gradient, !transposeA, false);
  return sumTo(full, b.shape);
}

/** Puts zeros at the elements that the slice did not take. */
function sliceGradient(node: Node<'slice'>, gradient: Node): Node {
  const shape = inputAt(node, 0).shape;
  const { starts, steps } = node.params;
  const spread = spreadSteps(gradient, steps, shape);
  const before = shape.map((_, dim) => sizeAt(starts, dim));
  const after = shape.map((size, dim) => size - sizeAt(before, dim) - sizeAt(spread.shape, dim));
  return pad(spread, before, after);
}

/** Moves element i of a dim to i * step, with zeros between the elements. */
function spreadSteps(x: Node, steps: readonly number[], limit: Shape): Node {
  let spread = x;
  steps.forEach((step, dim) => {
    const size = sizeAt(spread.shape, dim);
    if (step === 1 || size === 0) return;
    const split = reshape(spread, [
      ...spread.shape.slice(0, dim + 1),
      1,
      ...spread.shape.slice(dim + 1),
    ]);
    const after = split.shape.map((_, d) => (d === dim + 1 ? step - 1 : 0));
    const padded = pad(
      split,
      after.map(() => 0),
      after,
    );
    const merged = reshape(padded, [
      ...spread.shape.slice(0, dim),
      size * step,
      ...spread.shape.slice(dim + 1),
    ]);
    const keep = Math.min((size - 1) * step + 1, sizeAt(limit, dim));
    spread = sliceDim(merged, dim, 0, keep);
  });
  return spread;
}

function maxGradient(node: Node<'max'>, gradient: Node, output: Node): Node {
  const x = inputAt(node, 0);
  const { dims } = node.params;
  const chosen = cast(equal(x, expandReduced(output, dims, x)), x.dtype);
  const count = sum(chosen, dims);
  return mul(chosen, expandReduced(div(gradient, count), dims, x));
}

function concatGradient(node: Node<'concat'>, gradient: Node): Node[] {
  const { dim } = node.params;
  let start = 0;
  return node.inputs.map((input) => {
    const stop = start + sizeAt(input.shape, dim);
    const part = sliceDim(gradient, dim, start, stop);
    start = stop;
    return part;
  });
}

/** An element that was overwritten has no gradient. If indices are equal, only the last one gets the gradient. */
function scatterGradient(node: Node<'scatter'>, gradient: Node): (Node | null)[] {
  const [x, index, source] = [inputAt(node, 0), inputAt(node, 1), inputAt(node, 2)];
  const { dim } = node.params;
  const { site } = node;
  const numbers = reshape(iota([elementCount(index.shape)], 0), index.shape);
  const written = scatter(constant(0, x.shape, 'i32'), dim, index, numbers, site);
  const isLast = equal(gather(written, dim, index, site), numbers);
  return [
    scatter(gradient, dim, index, zeros(source), site),
    null,
    where(isLast, gather(gradient, dim, index, site), zeros(source)),
  ];
}

function powGradient(node: Node, gradient: Node, output: Node): Node[] {
  const [base, exponent] = [inputAt(node, 0), inputAt(node, 1)];
  const zero = zeros(gradient);
  const byBase = mul(gradient, mul(exponent, pow(base, offset(exponent, -1))));
  const isFlat = logicalAnd(equal(base, zero), lessEqual(zero, exponent));
  return [
    where(equal(exponent, zero), zero, byBase),
    mul(gradient, where(isFlat, zero, mul(output, log(base)))),
  ];
}

/** Differentiates a composite through its decomposition. Second derivatives need this. */
function throughDecomposition<K extends CompositeOp>(
  node: Node<K>,
  gradient: Node,
): (Node | null)[] {
  const stops = new Set(node.inputs);
  const results = new Map<Node, Node | null>();
  const reaches = new Map<Node, boolean>();
  const needs = (x: Node): boolean => {
    const known = reaches.get(x);
    if (known !== undefined) return known;
    const result = stops.has(x) || x.inputs.some(needs);
    reaches.set(x, result);
    return result;
  };
  const output = decompose(node.op, node.params, node.inputs);
  walkBackward([{ output, gradient }], {
    needs,
    isLeaf: (x) => stops.has(x),
    gradientsOf: gradientsOfNode,
    onLeaf: (leaf, result) => results.set(leaf, result),
  });
  // If an input occurs twice, its first occurrence gets the whole gradient.
  return node.inputs.map((input, index) =>
    node.inputs.indexOf(input) === index ? (results.get(input) ?? null) : null,
  );
}

function rowSums(x: Node): Node {
  return sum(x, allDims(x).slice(0, -1));
}

const rules: { readonly [K in Exclude<Op, CollectiveOp>]: GradientRule<K> } = {
  input: noGradient,
  distributed: noGradient,
  detach: noGradient,
  takeRows: (node, gy) => [
    createNode('fillRows', { rows: sizeAt(inputAt(node, 0).shape, 0) }, [gy]),
    null,
  ],
  fillRows: (node, gy) => {
    const { rowCount } = inputAt(node, 0);
    if (rowCount === null) throw new RangeError('fillRows of rows whose number is known');
    return [createNode('takeRows', none, [gy, rowCount.count])];
  },
  ownGradient: (node, gy, y) => [
    null,
    ...(node.ownGradient?.(gy, node.inputs.slice(1), y) ?? noGradient(node).slice(1)),
  ],
  assign: noGradient,
  constant: noGradient,
  iota: noGradient,
  random: noGradient,

  neg: (_, gy) => [neg(gy)],
  abs: (node, gy) => [mul(gy, sign(inputAt(node, 0)))],
  // A gradient of zeros is not the same as no gradient. With zeros an optimizer still applies momentum, as in PyTorch.
  sign: (_, gy) => [zeros(gy)],
  exp: (_, gy, y) => [mul(gy, y)],
  log: (node, gy) => [div(gy, inputAt(node, 0))],
  sqrt: (_, gy, y) => [div(scale(gy, 0.5), y)],
  sin: (node, gy) => [mul(gy, cos(inputAt(node, 0)))],
  atan: (node, gy) => [div(gy, offset(square(inputAt(node, 0)), 1))],
  cos: (node, gy) => [neg(mul(gy, sin(inputAt(node, 0))))],
  tanh: (_, gy, y) => [mul(gy, sub(constantLike(y, 1), square(y)))],
  erf: (node, gy) => [mul(gy, scale(exp(neg(square(inputAt(node, 0)))), 2 / Math.sqrt(Math.PI)))],
  floor: (_, gy) => [zeros(gy)],
  ceil: (_, gy) => [zeros(gy)],
  logicalNot: noGradient,
  cast: (node, gy) => {
    const { dtype } = inputAt(node, 0);
    return [kindOf(dtype) === 'float' && kindOf(node.dtype) === 'float' ? cast(gy, dtype) : null];
  },

  add: (_, gy) => [gy, gy],
  sub: (_, gy) => [gy, neg(gy)],
  mul: (node, gy) => [mul(gy, inputAt(node, 1)), mul(gy, inputAt(node, 0))],
  div: (node, gy, y) => {
    const divisor = inputAt(node, 1);
    return [div(gy, divisor), neg(mul(gy, div(y, divisor)))];
  },
  pow: powGradient,
  maximum: (node, gy) => chooseGradient(node, gy, true),
  minimum: (node, gy) => chooseGradient(node, gy, false),
  fmod: (node, gy) => {
    const [a, b] = [inputAt(node, 0), inputAt(node, 1)];
    return [gy, neg(mul(gy, truncate(div(a, b))))];
  },
  equal: noGradient,
  less: noGradient,
  lessEqual: noGradient,
  logicalAnd: noGradient,
  logicalOr: noGradient,
  where: (node, gy) => {
    const condition = inputAt(node, 0);
    return [null, where(condition, gy, zeros(gy)), where(condition, zeros(gy), gy)];
  },

  sum: (node, gy) => [expandReduced(gy, node.params.dims, inputAt(node, 0))],
  max: (node, gy, y) => [maxGradient(node, gy, y)],
  argMax: noGradient,
  argSort: noGradient,
  cumsum: ({ params }, gy) => [cumsum(gy, params.dim, !params.reverse)],

  reshape: (node, gy) => [reshape(gy, inputAt(node, 0).shape)],
  permute: (node, gy) => [permute(gy, inverseOrder(node.params.order))],
  expand: (node, gy) => [sumTo(gy, inputAt(node, 0).shape)],
  slice: (node, gy) => [sliceGradient(node, gy)],
  pad: (node, gy) => {
    const { shape } = inputAt(node, 0);
    const { before } = node.params;
    const stops = shape.map((size, dim) => sizeAt(before, dim) + size);
    return [createNode('slice', { starts: before, stops, steps: shape.map(() => 1) }, [gy])];
  },
  concat: concatGradient,

  matmul: matmulGradient,
  conv2d: (node, owed) => {
    const [x, w] = [inputAt(node, 0), inputAt(node, 1)];
    const gy = cast(owed, x.dtype);
    return [conv2dInput(gy, w, node.params, x.shape), conv2dWeight(x, gy, node.params, w.shape)];
  },
  conv2dInput: (node, g) => {
    const [dy, w] = [inputAt(node, 0), inputAt(node, 1)];
    return [conv2d(g, w, node.params), conv2dWeight(g, dy, node.params, w.shape)];
  },
  conv2dWeight: (node, g) => {
    const [x, dy] = [inputAt(node, 0), inputAt(node, 1)];
    return [conv2dInput(dy, g, node.params, x.shape), conv2d(x, g, node.params)];
  },

  gather: (node, gy) => [
    scatterAdd(zeros(inputAt(node, 0)), node.params.dim, inputAt(node, 1), gy, node.site),
    null,
  ],
  scatterAdd: (node, gy) => [gy, null, gather(gy, node.params.dim, inputAt(node, 1), node.site)],
  scatter: scatterGradient,
  indexSelect: (node, gy) => [
    indexAdd(zeros(inputAt(node, 0)), node.params.dim, inputAt(node, 1), gy, node.site),
    null,
  ],
  indexAdd: (node, gy) => [gy, null, indexSelect(gy, node.params.dim, inputAt(node, 1), node.site)],

  sigmoid: (_, gy, y) => [mul(gy, mul(y, sub(constantLike(y, 1), y)))],
  relu: (node, gy) => [where(lessEqual(inputAt(node, 0), zeros(node)), zeros(gy), gy)],
  silu: (node, gy) => {
    const x = inputAt(node, 0);
    const s = sigmoid(x);
    const slope = mul(s, offset(mul(x, sub(constantLike(s, 1), s)), 1));
    return [mul(gy, slope)];
  },
  softplus: (node, gy) => [mul(gy, sigmoid(inputAt(node, 0)))],
  gelu: (node, gy) => [createNode('geluGrad', node.params, [inputAt(node, 0), gy])],
  geluGrad: throughDecomposition,
  softmax: (_, gy, y) => [softmaxGrad(y, gy)],
  softmaxGrad: throughDecomposition,
  logSoftmax: (_, gy, y) => [createNode('logSoftmaxGrad', none, [y, gy])],
  logSoftmaxGrad: throughDecomposition,
  layerNorm: (node, gy) => {
    const [x, weight] = [inputAt(node, 0), inputAt(node, 1)];
    return [
      createNode('layerNormInputGrad', node.params, [x, weight, gy]),
      createNode('layerNormWeightGrad', node.params, [x, gy]),
      rowSums(gy),
    ];
  },
  layerNormInputGrad: throughDecomposition,
  layerNormWeightGrad: throughDecomposition,
  rmsNorm: (node, gy) => {
    const [x, weight] = [inputAt(node, 0), inputAt(node, 1)];
    return [
      createNode('rmsNormInputGrad', node.params, [x, weight, gy]),
      createNode('rmsNormWeightGrad', node.params, [x, gy]),
    ];
  },
  rmsNormInputGrad: throughDecomposition,
  rmsNormWeightGrad: throughDecomposition,
  groupedMatmul: groupedMatmulGradient,
  groupedMatmulWeight: groupedMatmulWeightGradient,
  attention: (node, gy, y) => attentionGradient(node, gy, y) ?? throughDecomposition(node, gy),
  attentionLogSumExp: throughDecomposition,
  attentionQueryGrad: throughDecomposition,
  attentionKeyGrad: throughDecomposition,
  attentionValueGrad: throughDecomposition,

  pageOut: (_, gy) => [gy],
  pageIn: (_, gy) => [gy],
  refresh: () => [null],
};

/** The gradient rules of all ops. Those of collectives are in collective-rules.ts. A missing rule does not compile. */
export const gradientRules: { readonly [K in Op]: GradientRule<K> } = {
  ...rules,
  ...collectiveRules,
};

function applyRule<K extends Op>(
  node: Node<K>,
  gradient: Node,
  output: Node,
): readonly (Node | null)[] {
  return gradientRules[node.op](node, gradient, output);
}

/** The gradients of a node's inputs, in the inputs' dtypes. They read `output` in the place of the node's value. */
export function gradientsOfNode(
  node: Node,
  gradient: Node,
  output: Node = node,
): readonly (Node | null)[] {
  const { identity } = node;
  const rule = (): readonly (Node | null)[] => applyRule(node, gradient, output);
  const gradients = identity === null ? rule() : asGradientOf(identity, rule);
  // Ops that take inputs of several float dtypes, such as norms, make gradients in the dtype of their result.
  return gradients.map((part, index) => part && cast(part, inputAt(node, index).dtype));
}
