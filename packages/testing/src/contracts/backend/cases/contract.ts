import type { Conv2dParams, Shape } from '@shardwise/core/spec';
import type { NdArray } from '../../../interpreter/nd-array.ts';
import { counting, f32, integers, uniform } from '../host-value.ts';
import { label } from '../op-case.ts';
import type { OpCase, OpCases } from '../op-case.ts';

type Contraction = 'matmul' | 'conv2d' | 'conv2dInput' | 'conv2dWeight';

const PLAIN: Conv2dParams = { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1 };

export interface Convolution {
  readonly title: string;
  readonly params: Conv2dParams;
  readonly x: Shape;
  readonly w: Shape;
}

/** The elements are small integers, so that every order of summation gives the same result. */
export const convolutions: readonly Convolution[] = [
  convolution('3 x 3', [1, 1, 5, 5], [1, 1, 3, 3], {}),
  convolution('channels', [2, 3, 5, 6], [4, 3, 3, 2], {}),
  convolution('1 x 1', [2, 3, 4, 5], [4, 3, 1, 1], {}),
  convolution('the whole image', [2, 3, 4, 5], [2, 3, 4, 5], {}),
  convolution('stride', [1, 2, 7, 9], [3, 2, 3, 3], { stride: [2, 3] }),
  convolution('stride that leaves a rest', [1, 1, 8, 8], [1, 1, 3, 3], { stride: [2, 2] }),
  convolution('padding', [1, 2, 4, 5], [3, 2, 3, 3], { padding: [1, 2] }),
  convolution('padding and stride', [2, 2, 7, 8], [3, 2, 3, 3], {
    padding: [1, 1],
    stride: [2, 2],
  }),
  convolution('dilation', [1, 2, 8, 9], [2, 2, 3, 2], { dilation: [2, 3] }),
  convolution('groups', [2, 4, 5, 5], [6, 2, 3, 3], { groups: 2 }),
  convolution('depthwise', [1, 4, 5, 5], [4, 1, 3, 3], { groups: 4, padding: [1, 1] }),
  convolution('everything', [2, 4, 9, 10], [4, 2, 3, 2], {
    stride: [2, 1],
    padding: [1, 1],
    dilation: [1, 2],
    groups: 2,
  }),
  convolution('an empty batch', [0, 2, 4, 4], [3, 2, 3, 3], {}),
];

/** The results of PyTorch 2.15 with every parameter in use: y, and the gradients dx and dw for dy. */
const REFERENCE = {
  params: { stride: [2, 1], padding: [1, 1], dilation: [1, 2], groups: 2 } satisfies Conv2dParams,
  x: pattern([1, 2, 5, 6], 7, 11, 5),
  w: pattern([4, 1, 3, 2], 5, 7, 3),
  dy: pattern([1, 4, 3, 6], 3, 5, 2),
  y: [
    -4, 12, -7, -15, 10, -3, 0, -27, -9, 20, -28, -12, -18, 4, 16, -27, 7, 15, 0, -30, 13, 1, -11,
    4, -12, 21, -8, -4, 22, 5, 12, -13, 17, 14, -11, 13, 4, 16, -27, 7, 19, -6, 3, -19, 4, 16, 6, 6,
    -7, 4, 8, 12, 5, -19, -9, 17, 14, -11, 19, -2, 4, 26, -4, 10, -9, -6, 12, 2, 2, -9, 2, -17,
  ],
  dx: [
    0, 0, 0, 0, 0, 0, 8, 0, 10, 0, -5, -13, -4, 0, 0, 0, 0, 4, -6, 10, 0, -5, -5, 6, 2, 0, 0, 0, 0,
    -2, 5, -5, 5, 5, 0, -10, 1, -4, 3, 0, -3, 3, -7, 5, 5, 0, -5, 2, -1, 3, 0, -3, 4, -3, 1, 5, 0,
    -5, -5, 4,
  ],
  dw: [
    -13, 42, -37, -33, -13, -22, 22, 4, -31, 2, -18, 0, 22, -24, 66, -4, -13, 42, -13, -22, 0, -31,
    22, 4,
  ],
};

export const contractCases: OpCases<Contraction> = {
  matmul: () => [
    product(
      'a known product',
      f32([2, 3], [1, 2, 3, 4, 5, 6]),
      f32([3, 2], [1, 0, 0, 1, 1, 1]),
      f32([2, 2], [4, 5, 10, 11]),
    ),
    product('a row and a column', f32([1, 3], [1, 2, 3]), f32([3, 1], [4, 5, 6]), f32([1, 1], 32)),
    product(
      'a column and a row',
      f32([2, 1], [1, 2]),
      f32([1, 3], [3, 4, 5]),
      f32([2, 3], [3, 4, 5, 6, 8, 10]),
    ),
    product('K = 0 gives zeros', f32([2, 0], []), f32([0, 3], []), f32([2, 3], 0)),
    product('no rows', f32([0, 3], []), f32([3, 2], 1), f32([0, 2], [])),
    product('no columns', f32([2, 3], 1), f32([3, 0], []), f32([2, 0], [])),
    product('an empty batch', f32([0, 2, 3], []), f32([0, 3, 2], []), f32([0, 2, 2], [])),
    product(
      'NaN stays in its row',
      f32([2, 2], [NaN, 0, 1, 2]),
      f32([2, 1], [1, 1]),
      f32([2, 1], [NaN, 3]),
    ),
    matmul([5, 7], [7, 3]),
    matmul([33, 65], [65, 17]),
    matmul([1, 129], [129, 64]),
    matmul([4, 3, 5], [4, 5, 2]),
    matmul([2, 3, 4, 5], [5, 6]),
    matmul([4, 3], [2, 3, 5]),
    matmul([2, 1, 3, 4], [5, 4, 2]),
    matmul([1, 3, 2, 4], [2, 1, 4, 2]),
    matmul([2, 3, 4], [1, 4, 2]),
    ...transposes([5, 7], [7, 3]),
    ...transposes([33, 20], [20, 9]),
    ...transposes([2, 3, 7, 4], [2, 3, 4, 7]),
    ...transposes([3, 7, 4], [4, 5]),
    ...transposes([7, 4], [3, 4, 5]),
    ...transposes([2, 1, 3, 4], [5, 4, 2]),
    ...transposes([0, 3], [3, 2]),
    ...transposes([2, 0], [0, 2]),
    {
      // Allows for f32 sums of 256 products of magnitude up to 4, in any order.
      ...matmul([16, 256], [256, 12]),
      title: 'fractions',
      inputs: [uniform([16, 256], 1), uniform([256, 12], 2)],
      tolerance: { rtol: 1e-5, atol: 1e-4 },
    },
  ],
  conv2d: () => [
    {
      title: 'a known image',
      operation: { op: 'conv2d', params: PLAIN },
      inputs: [f32([1, 1, 3, 3], [1, 2, 3, 4, 5, 6, 7, 8, 9]), f32([1, 1, 2, 2], [1, 0, 0, -1])],
      expected: f32([1, 1, 2, 2], -4),
    },
    {
      title: 'ones count what the window covers',
      operation: { op: 'conv2d', params: { ...PLAIN, padding: [1, 1] } },
      inputs: [f32([1, 1, 3, 3], 1), f32([1, 1, 3, 3], 1)],
      expected: f32([1, 1, 3, 3], [4, 6, 4, 6, 9, 6, 4, 6, 4]),
    },
    {
      title: 'everything, as PyTorch computes it',
      operation: { op: 'conv2d', params: REFERENCE.params },
      inputs: [REFERENCE.x, REFERENCE.w],
      expected: f32(REFERENCE.dy.shape, REFERENCE.y),
    },
    ...convolutions.map(({ title, params, x, w }): OpCase => ({
      title,
      operation: { op: 'conv2d', params },
      inputs: [integers(x, 1), integers(w, 2)],
      expected: { shape: outputShape(params, x, w), dtype: 'f32' },
    })),
  ],
  conv2dInput: () => [
    {
      title: 'ones count the windows that cover an element',
      operation: { op: 'conv2dInput', params: { ...PLAIN, inputShape: [1, 1, 3, 3] } },
      inputs: [f32([1, 1, 2, 2], 1), f32([1, 1, 2, 2], 1)],
      expected: f32([1, 1, 3, 3], [1, 2, 1, 2, 4, 2, 1, 2, 1]),
    },
    {
      title: 'everything, as PyTorch computes it',
      operation: {
        op: 'conv2dInput',
        params: { ...REFERENCE.params, inputShape: REFERENCE.x.shape },
      },
      inputs: [REFERENCE.dy, REFERENCE.w],
      expected: f32(REFERENCE.x.shape, REFERENCE.dx),
    },
    ...convolutions.map(({ title, params, x, w }): OpCase => ({
      title,
      operation: { op: 'conv2dInput', params: { ...params, inputShape: x } },
      inputs: [integers(outputShape(params, x, w), 3), integers(w, 2)],
      expected: { shape: x, dtype: 'f32' },
    })),
  ],
  conv2dWeight: () => [
    {
      title: 'a gradient of ones sums the windows',
      operation: { op: 'conv2dWeight', params: { ...PLAIN, weightShape: [1, 1, 2, 2] } },
      inputs: [f32([1, 1, 3, 3], [1, 2, 3, 4, 5, 6, 7, 8, 9]), f32([1, 1, 2, 2], 1)],
      expected: f32([1, 1, 2, 2], [12, 16, 24, 28]),
    },
    {
      title: 'everything, as PyTorch computes it',
      operation: {
        op: 'conv2dWeight',
        params: { ...REFERENCE.params, weightShape: REFERENCE.w.shape },
      },
      inputs: [REFERENCE.x, REFERENCE.dy],
      expected: f32(REFERENCE.w.shape, REFERENCE.dw),
    },
    ...convolutions.map(({ title, params, x, w }): OpCase => ({
      title,
      operation: { op: 'conv2dWeight', params: { ...params, weightShape: w } },
      inputs: [integers(x, 1), integers(outputShape(params, x, w), 3)],
      expected: { shape: w, dtype: 'f32' },
    })),
  ],
};

/** Makes a tensor whose element i is i * factor mod modulus - offset. */
function pattern(shape: Shape, factor: number, modulus: number, offset: number): NdArray {
  const elements = counting(shape).values.map((i) => ((i * factor) % modulus) - offset);
  return f32(shape, [...elements]);
}

function product(title: string, a: NdArray, b: NdArray, expected: NdArray): OpCase {
  const params = { transposeA: false, transposeB: false };
  return { title, operation: { op: 'matmul', params }, inputs: [a, b], expected };
}

/** Makes cases of a [.., M, K] and b [.., K, N] with integers. An operand is stored transposed if the params say so. */
function matmul(a: Shape, b: Shape, transposeA = false, transposeB = false): OpCase {
  const marks = `${transposeA ? ' transposed' : ''} x ${label(b)}${transposeB ? ' transposed' : ''}`;
  const stored = (shape: Shape, transposed: boolean): Shape =>
    transposed ? [...shape.slice(0, -2), ...shape.slice(-2).toReversed()] : shape;
  return {
    title: `${label(a)}${marks}`,
    operation: { op: 'matmul', params: { transposeA, transposeB } },
    inputs: [integers(stored(a, transposeA), 1), integers(stored(b, transposeB), 2)],
    expected: { shape: productShape(a, b), dtype: 'f32' },
  };
}

function transposes(a: Shape, b: Shape): OpCase[] {
  return [matmul(a, b, true, false), matmul(a, b, false, true), matmul(a, b, true, true)];
}

function productShape(a: Shape, b: Shape): Shape {
  const [long, short] = a.length >= b.length ? [a, b] : [b, a];
  const missing = long.length - short.length;
  const batch = long.slice(0, -2).map((size, dim) => {
    const other = dim < missing ? 1 : (short[dim - missing] ?? 1);
    return size === 1 ? other : size;
  });
  return [...batch, a.at(-2) ?? 0, b.at(-1) ?? 0];
}

function convolution(
  title: string,
  x: Shape,
  w: Shape,
  changed: Partial<Conv2dParams>,
): Convolution {
  return { title, x, w, params: { ...PLAIN, ...changed } };
}

export function outputShape(params: Conv2dParams, x: Shape, w: Shape): Shape {
  const size = (axis: 0 | 1): number => {
    const reach = params.dilation[axis] * ((w[2 + axis] ?? 0) - 1) + 1;
    return (
      Math.floor(((x[2 + axis] ?? 0) + 2 * params.padding[axis] - reach) / params.stride[axis]) + 1
    );
  };
  return [x[0] ?? 0, w[0] ?? 0, size(0), size(1)];
}
