import type { DType, Shape, Sizes } from '@shardwise/core/spec';
import { assertAllclose, type Tolerance } from '../../compare/allclose.ts';
import { interpreter } from '../../interpreter/interpreter.ts';
import type { NdArray } from '../../interpreter/nd-array.ts';
import { type ContractTest, reasonNotNative } from './contract-test.ts';
import { compileSized, evaluate, pick, reasonNotSized, run } from './device.ts';
import { i32, integers, uniform } from './host-value.ts';
import { composites } from './cases/composite.ts';
import type { OpCase } from './op-case.ts';
import type { Operation } from './program-builder.ts';
import { programOf } from './run-case.ts';

const symbols = [
  { max: 128, seen: 40, spacing: 1 },
  { max: 128, seen: 30, spacing: 1 },
];

/** Sizes that a compiler has not seen: small ones, equal ones, and the largest. */
const runs: readonly Sizes[] = [
  [7, 5],
  [2, 2],
  [3, 128],
  [128, 2],
  [33, 33],
  [128, 128],
  [7, 5],
];

interface SizedCase {
  readonly title: string;
  readonly at: (n: number, m: number) => OpCase;
}

function sized(
  title: string,
  inputs: (n: number, m: number) => readonly NdArray[],
  operation: (n: number, m: number) => Operation,
  shape: (n: number, m: number) => Shape,
  { dtype = 'f32', tolerance }: { readonly dtype?: DType; readonly tolerance?: Tolerance } = {},
): SizedCase {
  return {
    title,
    at: (n, m) => ({
      title,
      operation: operation(n, m),
      inputs: inputs(n, m),
      expected: { shape: shape(n, m), dtype },
      ...(tolerance !== undefined && { tolerance }),
    }),
  };
}

const plain = { stride: [1, 1], padding: [1, 1], dilation: [1, 1], groups: 1 } as const;
const loose = { tolerance: { rtol: 1e-4, atol: 1e-5 } };

function isComposite(op: string): boolean {
  return op in composites;
}

/** Makes an index for each row, in range for `size` rows. */
function indices(shape: Shape, size: number): NdArray {
  return integers(shape, 3, { low: 0, high: size - 1, dtype: 'i32' });
}

const cases: readonly SizedCase[] = [
  sized(
    'constant',
    () => [],
    (n, m) => ({ op: 'constant', params: { value: 2, shape: [n, m], dtype: 'f32' } }),
    (n, m) => [n, m],
  ),
  sized(
    'iota',
    () => [],
    (n, m) => ({ op: 'iota', params: { dim: 0, shape: [n, m] } }),
    (n, m) => [n, m],
    { dtype: 'i32' },
  ),
  sized(
    'random',
    () => [integers([2], 1, { dtype: 'i32' })],
    (n, m) => ({ op: 'random', params: { shape: [n, m] } }),
    (n, m) => [n, m],
    { dtype: 'i32' },
  ),
  sized(
    'cast',
    (n, m) => [integers([n, m], 1)],
    () => ({ op: 'cast', params: { dtype: 'i32' } }),
    (n, m) => [n, m],
    { dtype: 'i32' },
  ),
  sized(
    'sum of rows',
    (n, m) => [integers([n, m], 1)],
    () => ({ op: 'sum', params: { dims: [1] } }),
    (n) => [n],
  ),
  sized(
    'sum of columns',
    (n, m) => [integers([n, m], 1)],
    () => ({ op: 'sum', params: { dims: [0] } }),
    (_, m) => [m],
  ),
  sized(
    'sum of a dim in the middle',
    (n, m) => [integers([3, n, m], 1)],
    () => ({ op: 'sum', params: { dims: [1] } }),
    (_, m) => [3, m],
  ),
  sized(
    'sum of dims apart',
    (n, m) => [integers([n, 3, m], 1)],
    () => ({ op: 'sum', params: { dims: [0, 2] } }),
    () => [3],
  ),
  sized(
    'max',
    (n, m) => [integers([n, m], 1)],
    () => ({ op: 'max', params: { dims: [1] } }),
    (n) => [n],
  ),
  sized(
    'argMax',
    (n, m) => [integers([n, m], 1)],
    () => ({ op: 'argMax', params: { dim: 0 } }),
    (_, m) => [m],
    { dtype: 'i32' },
  ),
  sized(
    'cumsum',
    (n, m) => [integers([n, m], 1)],
    () => ({ op: 'cumsum', params: { dim: 0, reverse: true } }),
    (n, m) => [n, m],
  ),
  sized(
    'reshape that joins dims',
    (n, m) => [integers([n, m, 3], 1)],
    (n, m) => ({ op: 'reshape', params: { shape: [n * m, 3] } }),
    (n, m) => [n * m, 3],
  ),
  sized(
    'permute',
    (n, m) => [integers([n, 3, m], 1)],
    () => ({ op: 'permute', params: { order: [2, 0, 1] } }),
    (n, m) => [m, n, 3],
  ),
  sized(
    'permute of rows',
    (n, m) => [integers([n, m, 32], 1)],
    () => ({ op: 'permute', params: { order: [1, 0, 2] } }),
    (n, m) => [m, n, 32],
  ),
  sized(
    'expand of a row',
    (_, m) => [integers([1, m], 1)],
    (n, m) => ({ op: 'expand', params: { shape: [n, m] } }),
    (n, m) => [n, m],
  ),
  sized(
    'expand of a column',
    (n) => [integers([n, 1], 1)],
    (n, m) => ({ op: 'expand', params: { shape: [n, m] } }),
    (n, m) => [n, m],
  ),
  sized(
    'slice that leaves out the ends',
    (n, m) => [integers([n, m], 1)],
    (n, m) => ({ op: 'slice', params: { starts: [1, 0], stops: [n, m - 1], steps: [1, 1] } }),
    (n, m) => [n - 1, m - 1],
  ),
  sized(
    'slice in steps',
    (n) => [integers([2 * n, 3], 1)],
    (n) => ({ op: 'slice', params: { starts: [0, 0], stops: [2 * n, 3], steps: [2, 1] } }),
    (n) => [n, 3],
  ),
  sized(
    'slice of a table',
    () => [integers([128, 16], 1)],
    (n) => ({ op: 'slice', params: { starts: [0, 0], stops: [n, 16], steps: [1, 1] } }),
    (n) => [n, 16],
  ),
  sized(
    'pad to a size that does not vary',
    (n) => [integers([n, 3], 1)],
    (n) => ({ op: 'pad', params: { before: [0, 1], after: [128 - n, 0], value: 2 } }),
    () => [128, 4],
  ),
  sized(
    'concat',
    (n, m) => [integers([n, 3], 1), integers([m, 3], 2)],
    () => ({ op: 'concat', params: { dim: 0 } }),
    (n, m) => [n + m, 3],
  ),
  sized(
    'matmul',
    (n, m) => [integers([n, m], 1), integers([m, 5], 2)],
    () => ({ op: 'matmul', params: { transposeA: false, transposeB: false } }),
    (n) => [n, 5],
  ),
  sized(
    'matmul of batches',
    (n, m) => [integers([n, m, 4], 1), integers([n, m, 4], 2)],
    () => ({ op: 'matmul', params: { transposeA: false, transposeB: true } }),
    (n, m) => [n, m, m],
  ),
  sized(
    'matmul over what varies',
    (n, m) => [integers([n, 4], 1), integers([n, m], 2)],
    () => ({ op: 'matmul', params: { transposeA: true, transposeB: false } }),
    (_, m) => [4, m],
  ),
  sized(
    'conv2d of images that vary in number',
    (n) => [integers([n, 2, 6, 6], 1), integers([3, 2, 3, 3], 2)],
    () => ({ op: 'conv2d', params: plain }),
    (n) => [n, 3, 6, 6],
  ),
  sized(
    'conv2d of images that vary in size',
    (n, m) => [integers([1, 2, n, m], 1), integers([3, 2, 3, 3], 2)],
    () => ({ op: 'conv2d', params: plain }),
    (n, m) => [1, 3, n, m],
  ),
  sized(
    'gather',
    (n, m) => [integers([n, m], 1), indices([n, 1], 2)],
    () => ({ op: 'gather', params: { dim: 1 } }),
    (n) => [n, 1],
  ),
  sized(
    'scatterAdd',
    (n, m) => [integers([n, m], 1), indices([n, 1], 2), integers([n, 1], 2)],
    () => ({ op: 'scatterAdd', params: { dim: 1 } }),
    (n, m) => [n, m],
  ),
  sized(
    'indexSelect',
    (n, m) => [integers([11, m], 1), indices([n], 11)],
    () => ({ op: 'indexSelect', params: { dim: 0 } }),
    (n, m) => [n, m],
  ),
  sized(
    'indexAdd',
    (n, m) => [integers([11, m], 1), indices([n], 11), integers([n, m], 2)],
    () => ({ op: 'indexAdd', params: { dim: 0 } }),
    (_, m) => [11, m],
  ),
  sized(
    'softmax',
    (n, m) => [uniform([n, m], 1)],
    () => ({ op: 'softmax', params: {} }),
    (n, m) => [n, m],
    loose,
  ),
  sized(
    'softmaxGrad',
    (n, m) => [uniform([n, m], 1), uniform([n, m], 2)],
    () => ({ op: 'softmaxGrad', params: {} }),
    (n, m) => [n, m],
    loose,
  ),
  sized(
    'logSoftmax',
    (n, m) => [uniform([n, m], 1)],
    () => ({ op: 'logSoftmax', params: {} }),
    (n, m) => [n, m],
    loose,
  ),
  sized(
    'layerNorm',
    (n, m) => [uniform([n, m], 1), uniform([m], 2), uniform([m], 3)],
    () => ({ op: 'layerNorm', params: { eps: 0.1 } }),
    (n, m) => [n, m],
    loose,
  ),
  sized(
    'layerNormInputGrad',
    (n, m) => [uniform([n, m], 1), uniform([m], 2), uniform([n, m], 3)],
    () => ({ op: 'layerNormInputGrad', params: { eps: 0.1 } }),
    (n, m) => [n, m],
    loose,
  ),
  sized(
    'layerNormWeightGrad',
    (n, m) => [uniform([n, m], 1), uniform([n, m], 3)],
    () => ({ op: 'layerNormWeightGrad', params: { eps: 0.1 } }),
    (_, m) => [m],
    loose,
  ),
  sized(
    'groupedMatmul',
    (n, m) => [integers([n, m], 1), integers([3, m, 5], 2), i32([3], [1, 0, 1])],
    () => ({ op: 'groupedMatmul', params: { transposeB: false } }),
    (n) => [n, 5],
  ),
  sized(
    'groupedMatmulWeight',
    (n, m) => [integers([n, m], 1), integers([n, 5], 2), i32([3], [1, 0, 1])],
    () => ({ op: 'groupedMatmulWeight', params: {} }),
    (_, m) => [3, m, 5],
  ),
  sized(
    'attention',
    (n, m) => [uniform([2, 4, n, 3], 1), uniform([2, 2, m, 3], 2), uniform([2, 2, m, 5], 3)],
    () => ({
      op: 'attention',
      params: { causal: true, hasKeyRanges: false, scale: 0.5, rounding: 'none' },
    }),
    (n) => [2, 4, n, 5],
    loose,
  ),
  sized(
    'attention of heads that vary in number, with a mask',
    (n, m) => [
      uniform([n, 1, 4, 3], 1),
      uniform([n, 1, m, 3], 2),
      uniform([n, 1, m, 3], 3),
      uniform([n, 1, 1, m], 4),
    ],
    () => ({
      op: 'attention',
      params: { causal: false, hasKeyRanges: false, scale: 0.5, rounding: 'none' },
    }),
    (n) => [n, 1, 4, 3],
    loose,
  ),
  sized(
    'pagedAttention',
    (n, m) => [
      uniform([n, 4, 1, 3], 1),
      uniform([5, 4, 2, 3], 2),
      uniform([5, 4, 2, 3], 3),
      i32(
        [n, m],
        Array.from({ length: n * m }, (_, at) => at % 5),
      ),
      i32([n, 1, 2], Array.from({ length: n }, (_, item) => [0, 1 + (item % (4 * m))]).flat()),
    ],
    () => ({ op: 'pagedAttention', params: { scale: 0.5, rounding: 'none' } }),
    (n) => [n, 4, 1, 3],
    loose,
  ),
  sized(
    'attentionKeyGrad',
    (n, m) => [
      uniform([1, 2, n, 3], 1),
      uniform([1, 1, m, 3], 2),
      uniform([1, 1, m, 5], 3),
      uniform([1, 2, n, 5], 4),
      // These are larger than the scores, so that all weights are below 1.
      uniform([1, 2, n], 5, 8, 9),
      uniform([1, 2, n], 6),
    ],
    () => ({
      op: 'attentionKeyGrad',
      params: { causal: true, hasKeyRanges: false, scale: 0.5, rounding: 'none' },
    }),
    (_, m) => [1, 1, m, 3],
    loose,
  ),
  sized(
    'gelu',
    (n, m) => [uniform([n, m], 1)],
    () => ({ op: 'gelu', params: { approximate: 'none' } }),
    (n, m) => [n, m],
    loose,
  ),
];

export const sizedTests: readonly ContractTest[] = cases.map(({ title, at }): ContractTest => ({
  title,
  reasonToSkip: (backend) => {
    const { op } = at(2, 2).operation;
    const notNative = isComposite(op) ? reasonNotNative(backend, op) : undefined;
    return notNative ?? reasonNotSized(backend);
  },
  check: async (backend) => {
    const caseAt = ([n = 0, m = 0]: Sizes): OpCase => at(n, m);
    const executable = await compileSized(backend, {
      symbols,
      at: (sizes) => programOf(caseAt(sizes)),
    });
    for (const sizes of runs) {
      const opCase = caseAt(sizes);
      const program = programOf(opCase);
      const actual = await run(backend, executable, program, opCase.inputs, sizes);
      // The interpreter computes no composites. Other tests check the results of composites at a fixed size.
      const device = isComposite(opCase.operation.op) ? backend : interpreter();
      const expected = pick((await evaluate(device, program, opCase.inputs)).outputs, 0);
      const tolerance = { rtol: 0, atol: 0, ...opCase.tolerance };
      assertAllclose(pick(actual.outputs, 0), expected, tolerance);
    }
    executable.dispose();
  },
}));
