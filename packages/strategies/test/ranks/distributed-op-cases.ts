import { nn, type Shape, type Tensor } from '@shardwise/core';
import type { DistributedTensor } from '@shardwise/strategies';

/** The sizes of a case's dims. */
export interface Sizes {
  readonly b: number;
  readonly m: number;
  readonly k: number;
  readonly n: number;
}

/** An op on whole tensors and on distributed ones. Inputs are in [1, 3), or they are indices below `below`. */
export interface OpCase {
  readonly inputs: (sizes: Sizes) => readonly { readonly shape: Shape; readonly below?: number }[];
  readonly whole: (inputs: readonly Tensor[]) => Tensor;
  readonly distributed: (inputs: readonly DistributedTensor[]) => DistributedTensor;
}

function at<T>(inputs: readonly T[], index: number): T {
  const input = inputs[index];
  if (input === undefined) throw new RangeError(`no input ${index}`);
  return input;
}

/** A case for a method that both kinds of tensors have. */
function unary(name: UnaryName): OpCase {
  return {
    inputs: ({ m, n }) => [{ shape: [m, n] }],
    whole: (x) => at(x, 0)[name](),
    distributed: (x) => at(x, 0)[name](),
  };
}

type UnaryName =
  | 'neg'
  | 'abs'
  | 'exp'
  | 'log'
  | 'sqrt'
  | 'square'
  | 'tanh'
  | 'sigmoid'
  | 'relu'
  | 'gelu'
  | 'silu';
type BinaryName = 'add' | 'sub' | 'mul' | 'div' | 'maximum' | 'minimum';

function binary(name: BinaryName): OpCase {
  return {
    inputs: ({ m, n }) => [{ shape: [m, n] }, { shape: [m, n] }],
    whole: (x) => at(x, 0)[name](at(x, 1)),
    distributed: (x) => at(x, 0)[name](at(x, 1)),
  };
}

function withNumber(name: BinaryName): OpCase {
  return {
    inputs: ({ m, n }) => [{ shape: [m, n] }],
    whole: (x) => at(x, 0)[name](1.5),
    distributed: (x) => at(x, 0)[name](1.5),
  };
}

function unaries(names: readonly UnaryName[]): Record<string, OpCase> {
  return Object.fromEntries(names.map((name) => [name, unary(name)]));
}

const binaries: readonly BinaryName[] = ['add', 'sub', 'mul', 'div', 'maximum', 'minimum'];

export const opCases: Readonly<Record<string, OpCase>> = {
  ...unaries([
    'neg',
    'abs',
    'exp',
    'log',
    'sqrt',
    'square',
    'tanh',
    'sigmoid',
    'relu',
    'gelu',
    'silu',
  ]),
  ...Object.fromEntries(binaries.map((name) => [name, binary(name)])),
  ...Object.fromEntries(binaries.map((name) => [`${name} of a number`, withNumber(name)])),
  'add of a row': {
    inputs: ({ m, n }) => [{ shape: [m, n] }, { shape: [n] }],
    whole: (x) => at(x, 0).add(at(x, 1)),
    distributed: (x) => at(x, 0).add(at(x, 1)),
  },
  'mul of a column': {
    inputs: ({ b, m, n }) => [{ shape: [b, m, n] }, { shape: [m, 1] }],
    whole: (x) => at(x, 0).mul(at(x, 1)),
    distributed: (x) => at(x, 0).mul(at(x, 1)),
  },
  matmul: {
    inputs: ({ m, k, n }) => [{ shape: [m, k] }, { shape: [k, n] }],
    whole: (x) => at(x, 0).matmul(at(x, 1)),
    distributed: (x) => at(x, 0).matmul(at(x, 1)),
  },
  'matmul of a transposed weight': {
    inputs: ({ b, m, k, n }) => [{ shape: [b, m, k] }, { shape: [n, k] }],
    whole: (x) => at(x, 0).matmul(at(x, 1), { transposeB: true }),
    distributed: (x) => at(x, 0).matmul(at(x, 1), { transposeB: true }),
  },
  'matmul of batches': {
    inputs: ({ b, m, k, n }) => [{ shape: [b, m, k] }, { shape: [b, k, n] }],
    whole: (x) => at(x, 0).matmul(at(x, 1)),
    distributed: (x) => at(x, 0).matmul(at(x, 1)),
  },
  sum: {
    inputs: ({ b, m, n }) => [{ shape: [b, m, n] }],
    whole: (x) => at(x, 0).sum([0, 2]),
    distributed: (x) => at(x, 0).sum([0, 2]),
  },
  'mean that keeps dims': {
    inputs: ({ m, n }) => [{ shape: [m, n] }],
    whole: (x) => at(x, 0).mean(1, { keepDim: true }),
    distributed: (x) => at(x, 0).mean(1, { keepDim: true }),
  },
  max: {
    inputs: ({ m, n }) => [{ shape: [m, n] }],
    whole: (x) => at(x, 0).max(0),
    distributed: (x) => at(x, 0).max(0),
  },
  transpose: {
    inputs: ({ b, m, n }) => [{ shape: [b, m, n] }],
    whole: (x) => at(x, 0).transpose(0, 2),
    distributed: (x) => at(x, 0).transpose(0, 2),
  },
  softmax: {
    inputs: ({ m, n }) => [{ shape: [m, n] }],
    whole: (x) => at(x, 0).softmax(0),
    distributed: (x) => at(x, 0).softmax(0),
  },
  logSoftmax: {
    inputs: ({ m, n }) => [{ shape: [m, n] }],
    whole: (x) => at(x, 0).logSoftmax(),
    distributed: (x) => at(x, 0).logSoftmax(),
  },
  layerNorm: {
    inputs: ({ b, m, n }) => [{ shape: [b, m, n] }, { shape: [n] }, { shape: [n] }],
    whole: (x) => at(x, 0).layerNorm(at(x, 1), at(x, 2)),
    distributed: (x) => at(x, 0).layerNorm(at(x, 1), at(x, 2)),
  },
  rmsNorm: {
    inputs: ({ m, n }) => [{ shape: [m, n] }, { shape: [n] }],
    whole: (x) => at(x, 0).rmsNorm(at(x, 1)),
    distributed: (x) => at(x, 0).rmsNorm(at(x, 1)),
  },
  embedding: {
    inputs: ({ b, m, k, n }) => [{ shape: [b, m], below: k }, { shape: [k, n] }],
    whole: (x) => nn.functional.embedding(at(x, 0), at(x, 1)),
    distributed: (x) => at(x, 0).embedding(at(x, 1)),
  },
  crossEntropy: {
    inputs: ({ b, m, n }) => [{ shape: [b, m, n] }, { shape: [b, m], below: n }],
    whole: (x) =>
      nn.functional.crossEntropy(at(x, 0), at(x, 1), { labelSmoothing: 0.1, ignoreIndex: 1 }),
    distributed: (x) => at(x, 0).crossEntropy(at(x, 1), { labelSmoothing: 0.1, ignoreIndex: 1 }),
  },
};
