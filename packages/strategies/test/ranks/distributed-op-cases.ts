import { concat, nn, type Shape, type Tensor } from '@shardwise/core';

/** The sizes of a case's dims. */
export interface Sizes {
  readonly b: number;
  readonly m: number;
  readonly k: number;
  readonly n: number;
}

/** An input whose elements are in [1, 3), or indices below `below`. */
export interface CaseInput {
  readonly shape: Shape;
  readonly below?: number;
}

/** A function of tensors, which are whole on one rank, or distributed. */
export interface OpCase {
  /** How many of the first dims of the inputs may be sharded. Default: all. */
  readonly shardedDims?: number;
  readonly inputs: (sizes: Sizes) => readonly CaseInput[];
  readonly run: (x: Tensor, y: Tensor, z: Tensor) => Tensor;
}

function matrix(run: (x: Tensor) => Tensor): OpCase {
  return { inputs: ({ m, n }) => [{ shape: [m, n] }], run };
}

function batch(run: (x: Tensor) => Tensor): OpCase {
  return { inputs: ({ b, m, n }) => [{ shape: [b, m, n] }], run };
}

function pair(run: (x: Tensor, y: Tensor) => Tensor): OpCase {
  return { inputs: ({ m, n }) => [{ shape: [m, n] }, { shape: [m, n] }], run };
}

const heads = ({ b, m, k, n }: Sizes, queries: number, groups: number): readonly CaseInput[] => [
  { shape: [b, queries, m, n] },
  { shape: [b, groups, k, n] },
  { shape: [b, groups, k, n] },
];

export const opCases: Readonly<Record<string, OpCase>> = {
  // Elementwise, one tensor.
  neg: matrix((x) => x.neg()),
  abs: matrix((x) => x.sub(2).abs()),
  exp: matrix((x) => x.exp()),
  log: matrix((x) => x.log()),
  sqrt: matrix((x) => x.sqrt()),
  square: matrix((x) => x.square()),
  sin: matrix((x) => x.sin()),
  tan: matrix((x) => x.div(4).tan()),
  tanh: matrix((x) => x.tanh()),
  erf: matrix((x) => x.erf()),
  sigmoid: matrix((x) => x.sigmoid()),
  relu: matrix((x) => x.sub(2).relu()),
  gelu: matrix((x) => x.gelu()),
  silu: matrix((x) => x.silu()),
  softplus: matrix((x) => x.softplus()),
  clamp: matrix((x) => x.clamp(1.5, 2.5)),
  pow: matrix((x) => x.pow(3)),
  'to f16 and back': matrix((x) => x.to('f16').to('f32')),

  // Elementwise, two tensors.
  add: pair((x, y) => x.add(y)),
  sub: pair((x, y) => x.sub(y)),
  mul: pair((x, y) => x.mul(y)),
  div: pair((x, y) => x.div(y)),
  maximum: pair((x, y) => x.maximum(y)),
  minimum: pair((x, y) => x.minimum(y)),
  fmod: pair((x, y) => x.fmod(y)),
  where: pair((x, y) => x.gt(2).where(x, y)),
  'where with a number': matrix((x) => x.gt(2).where(x, 0)),
  lerp: pair((x, y) => x.lerp(y, 0.25)),
  'add of a number': matrix((x) => x.add(1.5)),
  'mul of a number': matrix((x) => x.mul(1.5)),
  'div of a number': matrix((x) => x.div(1.5)),
  'div by the tensor': matrix((x) => x.pow(-1).mul(3)),
  'maximum of a number': matrix((x) => x.maximum(1.5)),
  'add of a row': {
    inputs: ({ m, n }) => [{ shape: [m, n] }, { shape: [n] }],
    run: (x, y) => x.add(y),
  },
  'mul of a column': {
    inputs: ({ b, m, n }) => [{ shape: [b, m, n] }, { shape: [m, 1] }],
    run: (x, y) => x.mul(y),
  },
  'sub of an outer product': {
    inputs: ({ m, n }) => [{ shape: [m, 1] }, { shape: [n] }],
    run: (x, y) => x.sub(y),
  },

  // Products.
  matmul: {
    inputs: ({ m, k, n }) => [{ shape: [m, k] }, { shape: [k, n] }],
    run: (x, y) => x.matmul(y),
  },
  'matmul of a transposed weight': {
    inputs: ({ b, m, k, n }) => [{ shape: [b, m, k] }, { shape: [n, k] }],
    run: (x, y) => x.matmul(y, { transposeB: true }),
  },
  'matmul of batches': {
    inputs: ({ b, m, k, n }) => [{ shape: [b, m, k] }, { shape: [b, k, n] }],
    run: (x, y) => x.matmul(y),
  },
  linear: {
    inputs: ({ b, m, k, n }) => [{ shape: [b, m, k] }, { shape: [n, k] }, { shape: [n] }],
    run: (x, weight, bias) => nn.functional.linear(x, weight, bias),
  },
  conv2d: {
    inputs: ({ b, k, n }) => [{ shape: [b, k, 4, 5] }, { shape: [n, k, 3, 2] }],
    run: (x, weight) => nn.functional.conv2d(x, weight, null, { padding: 1 }),
  },

  // Reductions.
  sum: batch((x) => x.sum([0, 2])),
  'mean of all': batch((x) => x.mean()),
  'mean that keeps dims': matrix((x) => x.mean(1, { keepDim: true })),
  variance: batch((x) => x.variance([0, 2], { correction: 0 })),
  'centered rows': matrix((x) => x.sub(x.mean(-1, { keepDim: true }))),
  std: matrix((x) => x.std(0, { correction: 0 })),
  norm: matrix((x) => x.norm(1)),
  max: matrix((x) => x.max(0)),
  logSumExp: matrix((x) => x.logSumExp(0)),
  softmax: matrix((x) => x.softmax(0)),
  logSoftmax: matrix((x) => x.logSoftmax()),
  cumsum: matrix((x) => x.cumsum(1)),

  // Movement.
  transpose: batch((x) => x.transpose(0, 2)),
  'flatten the first dims': batch((x) => x.flatten(0, 1).mul(2)),
  'flatten the last dims': batch((x) => x.flatten(1)),
  'split into heads and back': {
    inputs: ({ b, m, n }) => [{ shape: [b, m, n * 4] }],
    run: (x) => {
      const [items = 0, times = 0, width = 0] = x.shape;
      const split = x.reshape([items, times, 4, width / 4]).transpose(1, 2);
      return split.mul(2).transpose(1, 2).reshape([items, times, width]);
    },
  },
  'unsqueeze and expand': matrix((x) =>
    x
      .unsqueeze(1)
      .expand([x.shape[0] ?? 0, 3, x.shape[1] ?? 0])
      .mul(2),
  ),
  'reshape of an expansion': matrix((x) => {
    const [rows = 0, columns = 0] = x.shape;
    return x
      .unsqueeze(0)
      .expand([2, rows, columns])
      .reshape([2 * rows, columns]);
  }),
  'slice of a dim': batch((x) => x.slice(1, 0, 1)),
  pad: matrix((x) => x.pad([0, 1], [0, 2])),
  concat: pair((x, y) => concat([x, y], 1)),
  'detached half': pair((x, y) => x.mul(y.detach()).add(y)),

  // Indices.
  embedding: {
    inputs: ({ b, m, k, n }) => [{ shape: [b, m], below: k }, { shape: [k, n] }],
    run: (indices, weight) => nn.functional.embedding(indices, weight),
  },
  indexSelect: {
    inputs: ({ m, k, n }) => [{ shape: [m], below: k }, { shape: [n, k] }],
    run: (indices, x) => x.indexSelect(1, indices),
  },
  gather: {
    inputs: ({ m, k, n }) => [{ shape: [m, n], below: k }, { shape: [m, k] }],
    run: (indices, x) => x.gather(1, indices),
  },
  oneHot: {
    inputs: ({ m, n }) => [{ shape: [m], below: 4 }, { shape: [m, n] }],
    run: (indices, x) => indices.oneHot(4).to('f32').unsqueeze(-1).mul(x.unsqueeze(1)),
  },

  // Functions of modules.
  layerNorm: {
    // Of two features that are nearly equal, a rounded sum of terms makes other ones: the result is their sign.
    inputs: ({ b, m, n }) => [{ shape: [b, m, n + 2] }, { shape: [n + 2] }, { shape: [n + 2] }],
    run: (x, weight, bias) => x.layerNorm(weight, bias),
  },
  rmsNorm: {
    inputs: ({ m, n }) => [{ shape: [m, n] }, { shape: [n] }],
    run: (x, weight) => x.rmsNorm(weight),
  },
  attention: {
    shardedDims: 2,
    inputs: (sizes) => heads(sizes, 4, 4),
    run: (q, k, v) => nn.functional.scaledDotProductAttention(q, k, v),
  },
  'causal attention of grouped queries': {
    shardedDims: 2,
    inputs: (sizes) => heads({ ...sizes, k: sizes.m }, 8, 4),
    run: (q, k, v) => nn.functional.scaledDotProductAttention(q, k, v, { causal: true }),
  },
  crossEntropy: {
    inputs: ({ b, m, n }) => [{ shape: [b, m, n] }, { shape: [b, m], below: n }],
    run: (logits, targets) =>
      nn.functional.crossEntropy(logits, targets, { labelSmoothing: 0.1, ignoreIndex: 1 }),
  },
  'crossEntropy of each row': {
    inputs: ({ b, m, n }) => [{ shape: [b, m, n] }, { shape: [b, m], below: n }],
    run: (logits, targets) => nn.functional.crossEntropy(logits, targets, { reduction: 'none' }),
  },
  mseLoss: pair((x, y) => nn.functional.mseLoss(x, y)),
};
