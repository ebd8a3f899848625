import { checkGradients, interpreter, type FloatArray } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { gradientRules } from '../src/autograd/rules.ts';
import { constant, iota } from '../src/graph/build/leaf.ts';
import { createNode } from '../src/graph/create-node.ts';
import type { Node } from '../src/graph/node.ts';
import { setRank } from '../src/rank.ts';
import { elementCount } from '../src/base/shape.ts';
import type { Shape } from '../src/spec/dtype.ts';
import type { CollectiveOp, ComputeOp, GraphOp, OpParams, TransferOp } from '../src/spec/op.ts';
import { fromData, tensor } from '../src/tensor/create.ts';
import { grad } from '../src/tensor/gradients.ts';
import { Tensor } from '../src/tensor/tensor.ts';

/** An op under test: the f64 inputs to differentiate, and how to make the node. */
interface Differentiable {
  readonly shapes: readonly Shape[];
  /** The range of the inputs, by default [-1, 1]. All elements differ by at least 1 / 64 of the range. */
  readonly range?: readonly [number, number];
  readonly build: (...inputs: Node[]) => Node;
}

type Case = readonly Differentiable[] | { readonly noGradient: (x: Node) => Node };

const none = {};

function op<K extends ComputeOp>(name: K, params: OpParams[K], ...fixed: Node[]) {
  return (...inputs: Node[]): Node => createNode(name, params, [...inputs, ...fixed]);
}

const attending = { causal: false, hasKeyRanges: false, scale: 0.7, rounding: 'none' } as const;
/** The shapes of queries, keys and values. Two heads of queries share one head of keys and values. */
const attended: readonly Shape[] = [
  [1, 2, 2, 2],
  [1, 1, 3, 2],
  [1, 1, 3, 1],
];
const owed: readonly Shape[] = [...attended, [1, 2, 2, 1]];

/** Builds a gradient node. The two row inputs are zeros, because these ops can compute them from the other inputs. */
function attentionGrad(name: 'attentionQueryGrad' | 'attentionKeyGrad' | 'attentionValueGrad') {
  return (...inputs: Node[]): Node => {
    const rowNumbers = constant(0, [1, 2, 2], 'f64');
    return createNode(name, { ...attending, causal: true }, [...inputs, rowNumbers, rowNumbers]);
  };
}

const pairs: readonly Shape[] = [
  [2, 3],
  [2, 3],
];
const conv = { stride: [2, 1], padding: [1, 0], dilation: [1, 2], groups: 2 } as const;
const rows = tensor([2, 0, 2], 'i32').node;
/** The sizes of the groups of 5 rows. The last row belongs to no group. */
const groupSizes = tensor([1, 0, 3], 'i32').node;
const places = tensor(
  [
    [1, 0],
    [1, 1],
  ],
  'i32',
).node;
const condition = tensor([
  [true, false, true],
  [false, false, true],
]).node;

/** A case for every op that a program may contain. An op without a case does not compile and fails the first test. */
const cases = {
  constant: { noGradient: () => constant(1, [2], 'f64') },
  iota: { noGradient: () => createNode('cast', { dtype: 'f64' }, [iota([2], 0)]) },
  random: { noGradient: () => bitsAsNumbers() },
  sign: { noGradient: op('sign', none) },
  floor: { noGradient: op('floor', none) },
  ceil: { noGradient: op('ceil', none) },
  logicalNot: { noGradient: (x) => createNode('logicalNot', none, [asBool(x)]) },
  equal: { noGradient: (x) => createNode('equal', none, [x, x]) },
  less: { noGradient: (x) => createNode('less', none, [x, x]) },
  lessEqual: { noGradient: (x) => createNode('lessEqual', none, [x, x]) },
  logicalAnd: { noGradient: (x) => createNode('logicalAnd', none, [asBool(x), asBool(x)]) },
  logicalOr: { noGradient: (x) => createNode('logicalOr', none, [asBool(x), asBool(x)]) },
  argSort: { noGradient: op('argSort', { dim: 0, descending: false }) },
  argMax: { noGradient: op('argMax', { dim: 0 }) },

  neg: [{ shapes: [[2, 3]], build: op('neg', none) }],
  abs: [
    {
      shapes: [[2, 3]],
      range: [0.1, 2],
      build: (x) => createNode('abs', none, [createNode('neg', none, [x])]),
    },
  ],
  exp: [{ shapes: [[2, 3]], build: op('exp', none) }],
  log: [{ shapes: [[2, 3]], range: [0.5, 2], build: op('log', none) }],
  sqrt: [{ shapes: [[2, 3]], range: [0.5, 2], build: op('sqrt', none) }],
  sin: [{ shapes: [[2, 3]], build: op('sin', none) }],
  atan: [{ shapes: [[2, 3]], build: op('atan', none) }],
  cos: [{ shapes: [[2, 3]], build: op('cos', none) }],
  tanh: [{ shapes: [[2, 3]], build: op('tanh', none) }],
  erf: [{ shapes: [[2, 3]], build: op('erf', none) }],
  cast: [{ shapes: [[2, 3]], build: op('cast', { dtype: 'f64' }) }],

  add: [{ shapes: pairs, build: op('add', none) }],
  sub: [{ shapes: pairs, build: op('sub', none) }],
  mul: [
    { shapes: pairs, build: op('mul', none) },
    { shapes: [[3]], build: (x) => createNode('mul', none, [x, x]) },
  ],
  div: [{ shapes: pairs, range: [0.5, 2], build: op('div', none) }],
  pow: [{ shapes: pairs, range: [0.5, 2], build: op('pow', none) }],
  maximum: [{ shapes: pairs, build: op('maximum', none) }],
  minimum: [{ shapes: pairs, build: op('minimum', none) }],
  fmod: [{ shapes: pairs, range: [0.5, 2], build: op('fmod', none) }],
  where: [{ shapes: pairs, build: (a, b) => createNode('where', none, [condition, a, b]) }],

  sum: [
    { shapes: [[2, 3, 2]], build: op('sum', { dims: [1] }) },
    { shapes: [[2, 3, 2]], build: op('sum', { dims: [0, 2] }) },
  ],
  max: [{ shapes: [[2, 3, 2]], build: op('max', { dims: [0, 2] }) }],
  cumsum: [
    { shapes: [[2, 3, 2]], build: op('cumsum', { dim: 1, reverse: false }) },
    { shapes: [[2, 3, 2]], build: op('cumsum', { dim: 1, reverse: true }) },
  ],

  reshape: [{ shapes: [[2, 3]], build: op('reshape', { shape: [3, 2] }) }],
  permute: [{ shapes: [[2, 3, 4]], build: op('permute', { order: [2, 0, 1] }) }],
  expand: [{ shapes: [[2, 1, 3]], build: op('expand', { shape: [2, 4, 3] }) }],
  slice: [
    { shapes: [[5, 3]], build: op('slice', { starts: [1, 0], stops: [4, 2], steps: [1, 1] }) },
    { shapes: [[7, 3]], build: op('slice', { starts: [1, 0], stops: [7, 3], steps: [3, 2] }) },
  ],
  pad: [{ shapes: [[2, 3]], build: op('pad', { before: [1, 0], after: [0, 2], value: 7 }) }],
  concat: [
    {
      shapes: [
        [2, 3],
        [2, 1],
        [2, 2],
      ],
      build: op('concat', { dim: 1 }),
    },
  ],

  matmul: [
    {
      shapes: [
        [2, 3],
        [3, 2],
      ],
      build: op('matmul', { transposeA: false, transposeB: false }),
    },
    {
      shapes: [
        [3, 2],
        [3, 4],
      ],
      build: op('matmul', { transposeA: true, transposeB: false }),
    },
    {
      shapes: [
        [2, 3],
        [4, 3],
      ],
      build: op('matmul', { transposeA: false, transposeB: true }),
    },
    {
      shapes: [
        [3, 2],
        [4, 3],
      ],
      build: op('matmul', { transposeA: true, transposeB: true }),
    },
    {
      shapes: [
        [2, 2, 3],
        [3, 2],
      ],
      build: op('matmul', { transposeA: false, transposeB: false }),
    },
    {
      shapes: [
        [2, 2, 3],
        [4, 3],
      ],
      build: op('matmul', { transposeA: false, transposeB: true }),
    },
    {
      shapes: [
        [2, 3, 2],
        [3, 2],
      ],
      build: op('matmul', { transposeA: true, transposeB: false }),
    },
    {
      shapes: [
        [2, 1, 2, 3],
        [3, 4, 3],
      ],
      build: op('matmul', { transposeA: false, transposeB: true }),
    },
    {
      shapes: [
        [2, 3],
        [2, 2, 3],
      ],
      build: op('matmul', { transposeA: false, transposeB: true }),
    },
  ],
  conv2d: [
    {
      shapes: [
        [2, 4, 3, 4],
        [4, 2, 2, 2],
      ],
      build: op('conv2d', conv),
    },
  ],
  conv2dInput: [
    {
      shapes: [
        [1, 4, 2, 2],
        [4, 2, 2, 2],
      ],
      build: op('conv2dInput', { ...conv, inputShape: [1, 4, 3, 4] }),
    },
  ],
  conv2dWeight: [
    {
      shapes: [
        [1, 4, 3, 4],
        [1, 4, 2, 2],
      ],
      build: op('conv2dWeight', { ...conv, weightShape: [4, 2, 2, 2] }),
    },
  ],

  gather: [{ shapes: [[2, 3]], build: op('gather', { dim: 1 }, places) }],
  scatterAdd: [
    {
      shapes: [
        [2, 3],
        [2, 2],
      ],
      build: (x, source) => createNode('scatterAdd', { dim: 1 }, [x, places, source]),
    },
  ],
  scatter: [
    {
      shapes: [
        [2, 3],
        [2, 2],
      ],
      build: (x, source) => createNode('scatter', { dim: 1 }, [x, places, source]),
    },
  ],
  indexSelect: [{ shapes: [[3, 2]], build: op('indexSelect', { dim: 0 }, rows) }],
  indexAdd: [
    {
      shapes: [
        [3, 2],
        [3, 2],
      ],
      build: (x, source) => createNode('indexAdd', { dim: 0 }, [x, rows, source]),
    },
  ],

  sigmoid: [{ shapes: [[2, 3]], build: op('sigmoid', none) }],
  relu: [{ shapes: [[2, 3]], range: [-1.02, 1], build: op('relu', none) }],
  silu: [{ shapes: [[2, 3]], range: [-3, 3], build: op('silu', none) }],
  softplus: [{ shapes: [[2, 3]], range: [-3, 3], build: op('softplus', none) }],
  gelu: [
    { shapes: [[2, 3]], build: op('gelu', { approximate: 'none' }) },
    { shapes: [[2, 3]], build: op('gelu', { approximate: 'tanh' }) },
  ],
  geluGrad: [
    { shapes: pairs, build: op('geluGrad', { approximate: 'none' }) },
    { shapes: pairs, build: op('geluGrad', { approximate: 'tanh' }) },
  ],
  softmax: [{ shapes: [[2, 3]], build: op('softmax', none) }],
  softmaxGrad: [{ shapes: pairs, build: op('softmaxGrad', none) }],
  logSoftmax: [{ shapes: [[2, 3]], build: op('logSoftmax', none) }],
  logSoftmaxGrad: [{ shapes: pairs, build: op('logSoftmaxGrad', none) }],
  layerNorm: [{ shapes: [[2, 3, 4], [4], [4]], build: op('layerNorm', { eps: 1e-2 }) }],
  layerNormInputGrad: [
    { shapes: [[2, 4], [4], [2, 4]], build: op('layerNormInputGrad', { eps: 1e-2 }) },
  ],
  layerNormWeightGrad: [
    {
      shapes: [
        [2, 4],
        [2, 4],
      ],
      build: op('layerNormWeightGrad', { eps: 1e-2 }),
    },
  ],
  rmsNorm: [{ shapes: [[2, 3, 4], [4]], build: op('rmsNorm', { eps: 1e-2 }) }],
  rmsNormInputGrad: [
    { shapes: [[2, 4], [4], [2, 4]], build: op('rmsNormInputGrad', { eps: 1e-2 }) },
  ],
  rmsNormWeightGrad: [
    {
      shapes: [
        [2, 4],
        [2, 4],
      ],
      build: op('rmsNormWeightGrad', { eps: 1e-2 }),
    },
  ],
  groupedMatmul: [
    {
      shapes: [
        [5, 2],
        [3, 2, 3],
      ],
      build: op('groupedMatmul', { transposeB: false }, groupSizes),
    },
    {
      shapes: [
        [5, 2],
        [3, 3, 2],
      ],
      build: op('groupedMatmul', { transposeB: true }, groupSizes),
    },
  ],
  groupedMatmulWeight: [
    {
      shapes: [
        [5, 2],
        [5, 3],
      ],
      build: op('groupedMatmulWeight', none, groupSizes),
    },
  ],
  attention: [
    { shapes: attended, build: op('attention', attending) },
    { shapes: attended, build: op('attention', { ...attending, causal: true }) },
    { shapes: [...attended, [1, 2, 1, 3]], build: op('attention', attending) },
  ],
  attentionLogSumExp: [
    { shapes: attended.slice(0, 2), build: op('attentionLogSumExp', attending) },
  ],
  attentionQueryGrad: [{ shapes: owed, build: attentionGrad('attentionQueryGrad') }],
  attentionKeyGrad: [{ shapes: owed, build: attentionGrad('attentionKeyGrad') }],
  attentionValueGrad: [
    {
      // The op is linear in the gradient and does not depend on the values.
      shapes: [...owed.slice(0, 2), ...owed.slice(3)],
      build: (q, k, dy) =>
        attentionGrad('attentionValueGrad')(q, k, constant(1, [1, 1, 3, 1], 'f64'), dy),
    },
  ],
} satisfies Record<ComputeOp, Case>;

/** Ops that other tests cover. Collectives need ranks, transfers need a plan, and the rest never reach a program. */
const elsewhere = {
  input: true,
  distributed: true,
  detach: true,
  ownGradient: true,
  assign: true,
  allReduce: true,
  allGather: true,
  reduceScatter: true,
  allToAll: true,
  allToAllRows: true,
  takeRows: true,
  fillRows: true,
  broadcast: true,
  reduce: true,
  sendRecv: true,
  localChunk: true,
  reinterpret: true,
  pageOut: true,
  pageIn: true,
  refresh: true,
} satisfies Record<GraphOp | CollectiveOp | TransferOp, true>;

beforeEach(() => setRank({ device: interpreter() }));

test('every op of the gradient table has a case', () => {
  expect(Object.keys({ ...cases, ...elsewhere }).toSorted()).toEqual(
    Object.keys(gradientRules).toSorted(),
  );
});

const entries: [string, Case][] = Object.entries(cases);

const differentiable = entries.flatMap(([name, rule]) =>
  'noGradient' in rule ? [] : rule.map((example, index) => [`${name} ${index}`, example] as const),
);

describe('gradients are the derivatives that finite differences give', () => {
  test.each(differentiable)('%s', async (_, { shapes, range = [-1, 1], build }) => {
    const values = sampleInputs(shapes, range);
    const leaves = values.map((data, index) => leafOf(data, shapes[index] ?? []).requiresGrad_());
    weighted(build(...leaves.map(({ node }) => node))).backward();
    const gradients: FloatArray[] = [];
    for (const [index, { grad }] of leaves.entries()) {
      expect(grad?.shape).toEqual(shapes[index]);
      gradients.push(Float64Array.from((await grad?.data()) ?? [], Number));
    }
    await checkGradients(
      async (inputs) => {
        const nodes = inputs.map((data, index) => leafOf(data, shapes[index] ?? []).node);
        return weighted(build(...nodes)).item();
      },
      values,
      gradients,
      { rtol: 1e-6, atol: 1e-7 },
    );
  });
});

describe('gradients have the gradients that finite differences give', () => {
  test.each(differentiable)('%s', async (_, { shapes, range = [-1, 1], build }) => {
    const values = sampleInputs(shapes, range);
    const withGradients = (inputs: readonly FloatArray[]): [Tensor[], Tensor] => {
      const leaves = inputs.map((data, i) => leafOf(data, shapes[i] ?? []).requiresGrad_());
      const loss = weighted(build(...leaves.map(({ node }) => node)));
      const first = grad(loss, leaves, { createGraph: true, allowUnused: true });
      const terms = first.flatMap((each) => (each === null ? [] : [weighted(each.node)]));
      return [leaves, terms.reduce((sum, term) => sum.add(term))];
    };
    const [leaves, penalty] = withGradients(values);
    const second = penalty.requiresGrad
      ? grad(penalty, leaves, { allowUnused: true })
      : leaves.map(() => null);
    const gradients: FloatArray[] = [];
    for (const [i, each] of second.entries()) {
      const data = await each?.data();
      gradients.push(Float64Array.from(data ?? (values[i] ?? []).map(() => 0), Number));
    }
    await checkGradients((inputs) => withGradients(inputs)[1].item(), values, gradients, {
      rtol: 1e-5,
      atol: 1e-6,
      directions: 2,
      elementwiseLimit: 0,
    });
  });
});

describe('no gradient flows through', () => {
  const rowsOfTable = entries.flatMap(([name, rule]) =>
    'noGradient' in rule ? [[name, rule] as const] : [],
  );
  test.each(rowsOfTable)('%s', async (_, { noGradient }) => {
    const x = leafOf(Float64Array.of(0.3, -0.7), [2]).requiresGrad_();
    const y = new Tensor(createNode('cast', { dtype: 'f64' }, [noGradient(x.node)]));
    y.sum().add(x.sum().mul(3)).backward();
    expect(await x.grad?.data()).toEqual(Float64Array.of(3, 3));
  });
});

function asBool(x: Node): Node {
  return createNode('cast', { dtype: 'bool' }, [x]);
}

function bitsAsNumbers(): Node {
  const bits = createNode('random', { shape: [2] }, [tensor([1, 2], 'i32').node]);
  return createNode('cast', { dtype: 'f64' }, [bits]);
}

function leafOf(data: FloatArray, shape: Shape): Tensor {
  return fromData(data, shape, 'f64');
}

/** A scalar that depends on every element with a different factor. */
function weighted(y: Node): Tensor {
  const weights = Float64Array.from(
    { length: elementCount(y.shape) },
    (_, i) => Math.cos(1.7 * i) + 1.3,
  );
  return new Tensor(y).mul(fromData(weights, y.shape, 'f64')).sum();
}

/** Returns distinct values, so that no maximum is tied. Their order has no pattern. */
function sampleInputs(
  shapes: readonly Shape[],
  [low, high]: readonly [number, number],
): Float64Array[] {
  let next = 1;
  return shapes.map((shape) =>
    Float64Array.from({ length: elementCount(shape) }, () => {
      next = (next * 37) % 101;
      return low + ((high - low) * next) / 101;
    }),
  );
}
