import type { PrimitiveOp } from '@shardwise/core/spec';
import { type ExampleInput, flags, indices, type OpExample, varied } from './op-example.ts';

const none = {};
const matrix = varied([2, 3]);
const positive = varied([2, 3], [0.5, 2]);
const block = varied([2, 3, 2]);
const bits = flags([3], [1, 0, 1]);
const window = { stride: [2, 1], padding: [1, 0], dilation: [1, 2], groups: 2 } as const;
const dense = { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1 } as const;
const weight = varied([4, 2, 2, 2]);
const places = indices([2, 2], [1, 0, 1, 1]);
const rows = indices([3], [2, 0, 2]);

/** One example without parameters. */
const of = (...inputs: readonly ExampleInput[]) => [{ params: none, inputs }] as const;

const flat = { transposeA: false, transposeB: false } as const;

/** Examples of every primitive op. */
export const primitiveExamples: {
  readonly [K in PrimitiveOp]: readonly [OpExample<K>, ...OpExample<K>[]];
} = {
  constant: [{ params: { value: 1, shape: [2], dtype: 'f64' }, inputs: [] }],
  iota: [{ params: { dim: 0, shape: [2] }, inputs: [] }],
  random: [{ params: { shape: [2] }, inputs: [indices([2], [1, 2])] }],

  neg: of(matrix),
  abs: of(varied([2, 3], [-1.02, 1])),
  sign: of(matrix),
  exp: of(matrix),
  log: of(positive),
  sqrt: of(positive),
  sin: of(matrix),
  cos: of(matrix),
  atan: of(matrix),
  tanh: of(matrix),
  erf: of(matrix),
  floor: of(varied([2, 3], [-2, 3])),
  ceil: of(varied([2, 3], [-2, 3])),
  logicalNot: of(bits),
  cast: [
    { params: { dtype: 'f64' }, inputs: [matrix] },
    { params: { dtype: 'i32' }, inputs: [varied([2, 3], [-3, 4])] },
  ],

  add: of(matrix, matrix),
  sub: of(matrix, matrix),
  mul: of(matrix, matrix),
  div: of(positive, positive),
  pow: of(positive, positive),
  maximum: of(matrix, matrix),
  minimum: of(matrix, matrix),
  fmod: of(positive, positive),
  equal: of(matrix, matrix),
  less: of(matrix, matrix),
  lessEqual: of(matrix, matrix),
  logicalAnd: of(bits, bits),
  logicalOr: of(bits, bits),
  where: of(flags([2, 3], [1, 0, 1, 0, 0, 1]), matrix, matrix),

  sum: [
    { params: { dims: [1] }, inputs: [block] },
    { params: { dims: [0, 2] }, inputs: [block] },
  ],
  max: [{ params: { dims: [0, 2] }, inputs: [block] }],
  argMax: [{ params: { dim: 1 }, inputs: [block] }],
  argSort: [
    { params: { dim: 1, descending: false }, inputs: [block] },
    { params: { dim: 0, descending: true }, inputs: [block] },
  ],
  cumsum: [
    { params: { dim: 1, reverse: false }, inputs: [block] },
    { params: { dim: 1, reverse: true }, inputs: [block] },
  ],

  reshape: [{ params: { shape: [3, 2] }, inputs: [matrix] }],
  permute: [{ params: { order: [2, 0, 1] }, inputs: [varied([2, 3, 4])] }],
  expand: [{ params: { shape: [2, 4, 3] }, inputs: [varied([2, 1, 3])] }],
  slice: [
    { params: { starts: [1, 0], stops: [4, 2], steps: [1, 1] }, inputs: [varied([5, 3])] },
    { params: { starts: [1, 0], stops: [7, 3], steps: [3, 2] }, inputs: [varied([7, 3])] },
  ],
  pad: [
    { params: { before: [1, 0], after: [0, 2], value: 0 }, inputs: [matrix] },
    { params: { before: [1, 0], after: [0, 2], value: 7 }, inputs: [matrix] },
  ],
  concat: [{ params: { dim: 1 }, inputs: [varied([2, 3]), varied([2, 1]), varied([2, 2])] }],

  matmul: [
    { params: flat, inputs: [varied([2, 3]), varied([3, 2])] },
    { params: { ...flat, transposeA: true }, inputs: [varied([3, 2]), varied([3, 4])] },
    { params: { ...flat, transposeB: true }, inputs: [varied([2, 3]), varied([4, 3])] },
    {
      params: { transposeA: true, transposeB: true },
      inputs: [varied([3, 2]), varied([4, 3])],
    },
    // A weight for all items of a batch, and batches that broadcast.
    { params: flat, inputs: [varied([2, 2, 3]), varied([3, 2])] },
    { params: { ...flat, transposeB: true }, inputs: [varied([2, 2, 3]), varied([4, 3])] },
    { params: { ...flat, transposeA: true }, inputs: [varied([2, 3, 2]), varied([3, 2])] },
    { params: { ...flat, transposeB: true }, inputs: [varied([2, 1, 2, 3]), varied([3, 4, 3])] },
    { params: { ...flat, transposeB: true }, inputs: [varied([2, 3]), varied([2, 2, 3])] },
  ],
  conv2d: [
    { params: window, inputs: [varied([2, 4, 3, 4]), weight] },
    { params: dense, inputs: [varied([2, 3, 3, 3]), varied([2, 3, 2, 2])] },
  ],
  conv2dInput: [
    { params: { ...window, inputShape: [1, 4, 3, 4] }, inputs: [varied([1, 4, 2, 2]), weight] },
    {
      params: { ...dense, inputShape: [2, 3, 3, 3] },
      inputs: [varied([2, 2, 2, 2]), varied([2, 3, 2, 2])],
    },
  ],
  conv2dWeight: [
    {
      params: { ...window, weightShape: [4, 2, 2, 2] },
      inputs: [varied([1, 4, 3, 4]), varied([1, 4, 2, 2])],
    },
    {
      params: { ...dense, weightShape: [2, 3, 2, 2] },
      inputs: [varied([2, 3, 3, 3]), varied([2, 2, 2, 2])],
    },
  ],

  gather: [{ params: { dim: 1 }, inputs: [matrix, places] }],
  scatterAdd: [{ params: { dim: 1 }, inputs: [matrix, places, varied([2, 2])] }],
  scatter: [{ params: { dim: 1 }, inputs: [matrix, places, varied([2, 2])] }],
  indexSelect: [{ params: { dim: 0 }, inputs: [varied([3, 2]), rows] }],
  indexAdd: [{ params: { dim: 0 }, inputs: [varied([3, 2]), rows, varied([3, 2])] }],
};
