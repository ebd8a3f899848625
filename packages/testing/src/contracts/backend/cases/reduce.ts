import { f32, i32, integers, uniform } from '../host-value.ts';
import { label } from '../op-case.ts';
import type { OpCase, OpCases } from '../op-case.ts';
import type { NdArray } from '../../../interpreter/nd-array.ts';

/** [[0, 1, 2], [3, 4, 5]] and its negative. */
const MATRIX = f32([2, 3], [0, 1, 2, 3, 4, 5]);
const NEGATIVE = f32([2, 3], [-0, -1, -2, -3, -4, -5]);
const LARGEST = 2 ** 31 - 1;
const SIZES = [
  { shape: [5, 7], dims: [0] },
  { shape: [5, 7], dims: [1] },
  { shape: [3, 4, 5], dims: [1] },
  { shape: [3, 4, 5], dims: [0, 2] },
  { shape: [3, 4, 5], dims: [0, 1] },
  { shape: [2, 3, 4, 5], dims: [1, 2] },
  { shape: [1, 5, 1], dims: [0, 2] },
  { shape: [33, 65], dims: [0] },
  { shape: [100, 37], dims: [0] },
  { shape: [9, 515], dims: [1] },
];

export const reduceCases: OpCases<'sum' | 'max' | 'argMax' | 'argSort' | 'cumsum'> = {
  sum: () => [
    sum('the columns', MATRIX, [0], f32([3], [3, 5, 7])),
    sum('the rows', MATRIX, [1], f32([2], [3, 12])),
    sum('everything', MATRIX, [0, 1], f32([], 15)),
    sum('no dims', MATRIX, [], MATRIX),
    sum('a scalar', f32([], 3), [], f32([], 3)),
    sum('i32', i32([2, 3], [1, 2, 3, -4, -5, -6]), [1], i32([2], [6, -15])),
    sum('no elements to zero', f32([0], []), [0], f32([], 0)),
    sum('an empty dim to zeros', f32([2, 0, 3], []), [1], f32([2, 3], 0)),
    sum('to an empty shape', f32([2, 0, 3], []), [0], f32([0, 3], [])),
    sum(
      'infinities',
      f32([2, 2], [Infinity, 1, Infinity, -Infinity]),
      [1],
      f32([2], [Infinity, NaN]),
    ),
    sum('100 000 ones exactly', f32([100_000], 1), [0], f32([], 100_000)),
    ...[
      [[3], [0]] as const,
      [[3, 40], [0]] as const,
      [
        [3, 2, 3],
        [0, 2],
      ] as const,
    ].map(([shape, dims]) =>
      sum(`i32 ${label(shape)} that wraps around`, i32(shape, LARGEST), dims),
    ),
    sum('i32 beyond the digits of f32', i32([3], 2 ** 24 + 1), [0], i32([], 3 * 2 ** 24 + 3)),
    ...SIZES.map(({ shape, dims }) =>
      sum(
        `i32 of ${label(shape)} over ${label(dims)}`,
        integers(shape, 2, { low: -(2 ** 31), high: LARGEST, dtype: 'i32' }),
        dims,
      ),
    ),
    ...[
      [200_000, 3],
      [3, 200_000],
      [20_000, 70],
    ].map((shape) => ({
      // f32 cannot express the terms exactly, so an error would grow with their number.
      ...sum(`many fractions of ${label(shape)}`, f32(shape, 0.1), [shape[0] === 3 ? 1 : 0]),
      tolerance: { rtol: 2e-6, atol: 0 },
    })),
    ...SIZES.map(({ shape, dims }) =>
      sum(`integers of ${label(shape)} over ${label(dims)}`, integers(shape, 1), dims),
    ),
    {
      // The tolerance allows for f32 sums of 4096 terms of at most 1, in any order.
      ...sum('4096 fractions', uniform([3, 4096], 1, 0, 1), [1]),
      tolerance: { rtol: 2e-6, atol: 0 },
    },
  ],
  max: () => [
    max('of the columns', MATRIX, [0], f32([3], [3, 4, 5])),
    max('of the rows', NEGATIVE, [1], f32([2], [0, -3])),
    max('of everything', MATRIX, [0, 1], f32([], 5)),
    max('of no dims', MATRIX, [], MATRIX),
    max('of the extremes of i32', i32([3], [-(2 ** 31), LARGEST, 0]), [0], i32([], LARGEST)),
    max('of i32', i32([2, 3], [1, 9, 3, -4, -5, -6]), [1], i32([2], [9, -4])),
    max('to an empty shape', f32([2, 0, 3], []), [0], f32([0, 3], [])),
    max('of negative infinities', f32([2], -Infinity), [0], f32([], -Infinity)),
    max('is NaN where an element is', f32([2, 2], [1, NaN, 2, 3]), [1], f32([2], [NaN, 3])),
    ...SIZES.map(({ shape, dims }) =>
      max(`of ${label(shape)} over ${label(dims)}`, uniform(shape, 1), dims),
    ),
  ],
  argMax: () => [
    argMax('of the columns', MATRIX, 0, i32([3], [1, 1, 1])),
    argMax('of the rows', NEGATIVE, 1, i32([2], [0, 0])),
    argMax('of a vector', f32([4], [1, 7, 3, 5]), 0, i32([], 1)),
    argMax(
      'is the first of equal maxima',
      f32([2, 4], [5, 9, 9, 1, 2, 2, 2, 2]),
      1,
      i32([2], [1, 0]),
    ),
    argMax(
      'is the first of equal maxima down a column',
      f32([3, 2], [4, 0, 4, 8, 1, 8]),
      0,
      i32([2], [0, 1]),
    ),
    argMax('of negative infinities', f32([3], -Infinity), 0, i32([], 0)),
    argMax('of i32', i32([2, 3], [1, 9, 3, -4, -5, -3]), 1, i32([2], [1, 2])),
    argMax('is the first NaN', f32([2, 4], [1, NaN, 2, NaN, 5, 7, 9, NaN]), 1, i32([2], [1, 3])),
    argMax(
      'is the first NaN down a column',
      f32([4, 2], [1, 5, NaN, 7, 2, 9, NaN, NaN]),
      0,
      i32([2], [1, 3]),
    ),
    argMax('of the extremes of i32', i32([3], [-(2 ** 31), 5, LARGEST]), 0, i32([], 2)),
    argMax(
      'of integers beyond the digits of f32',
      i32([3], [2 ** 24, 2 ** 24 + 1, 0]),
      0,
      i32([], 1),
    ),
    argMax('down many columns', integers([5, 70], 1), 0),
    argMax('of i32 down many columns', integers([5, 70], 1, { dtype: 'i32' }), 0),
    argMax('along a dim of size 1', f32([2, 1], [3, 4]), 1, i32([2], 0)),
    argMax('to an empty shape', f32([0, 3], []), 1, i32([0], [])),
    argMax('of integers with many ties', integers([4, 37, 3], 1), 1),
    argMax('of a long row', uniform([3, 515], 1), 1),
  ],
  argSort: () => [
    argSort('of a vector', f32([4], [3, 1, 4, 2]), 0, i32([4], [1, 3, 0, 2])),
    argSort(
      'down the columns',
      f32([2, 3], [1, 5, 2, 0, 6, 2]),
      0,
      i32([2, 3], [1, 0, 0, 0, 1, 1]),
    ),
    argSort('along the rows', f32([2, 3], [1, 5, 2, 0, 6, 2]), 1, i32([2, 3], [0, 2, 1, 0, 2, 1])),
    argSort(
      'keeps the order of equal elements',
      f32([6], [1, 0, 1, -0, 1, 0]),
      0,
      i32([6], [1, 3, 5, 0, 2, 4]),
    ),
    argSort(
      'keeps it in a descending order, too',
      f32([6], [1, 0, 1, -0, 1, 0]),
      0,
      i32([6], [0, 2, 4, 1, 3, 5]),
      true,
    ),
    argSort(
      'has NaN behind infinity',
      f32([5], [NaN, Infinity, NaN, -Infinity, 0]),
      0,
      i32([5], [3, 4, 1, 0, 2]),
    ),
    argSort(
      'has NaN first in a descending order',
      f32([5], [Infinity, NaN, 0, NaN, -Infinity]),
      0,
      i32([5], [1, 3, 0, 2, 4]),
      true,
    ),
    argSort('of i32', i32([4], [LARGEST, -(2 ** 31), 0, LARGEST]), 0, i32([4], [1, 2, 0, 3])),
    argSort(
      'of i32, descending',
      i32([4], [LARGEST, -(2 ** 31), 0, LARGEST]),
      0,
      i32([4], [0, 3, 2, 1]),
      true,
    ),
    argSort('of no elements', f32([2, 0], []), 1, i32([2, 0], [])),
    argSort('along a dim of size 1', f32([2, 1], [3, NaN]), 1, i32([2, 1], 0)),
    argSort('of the middle dim, with many ties', integers([3, 41, 5], 1), 1),
    argSort('of a long row', uniform([2, 1037], 1), 1),
  ],
  cumsum: () => [
    cumsum('down the columns', MATRIX, 0, f32([2, 3], [0, 1, 2, 3, 5, 7])),
    cumsum('along the rows', MATRIX, 1, f32([2, 3], [0, 1, 3, 3, 7, 12])),
    cumsum('of i32', i32([4], [1, -2, 3, -4]), 0, i32([4], [1, -1, 2, -2])),
    cumsum('of one element', f32([1], 5), 0, f32([1], 5)),
    cumsum('of no elements', f32([2, 0], []), 1, f32([2, 0], [])),
    cumsum('along the middle dim', integers([3, 5, 2], 1), 1),
    cumsum('of a long row', integers([2, 515], 1), 1),
    cumsum('down many columns', integers([5, 70], 1), 0),
    cumsum('of i32 wraps around', i32([3], LARGEST), 0, i32([3], [LARGEST, -2, LARGEST - 2])),
    cumsum('keeps what f32 would lose on the way', f32([6], [2 ** 24, 1, 1, 1, 1, 1]), 0),
    ...[0, 1].map((dim) =>
      cumsum(`from the end, along dim ${dim}`, integers([4, 6], 1), dim, undefined, true),
    ),
    cumsum('of i32 from the end', i32([3], [1, 2, 4]), 0, i32([3], [7, 6, 4]), true),
    cumsum(
      'of infinity from the end',
      f32([3], [1, Infinity, 2]),
      0,
      f32([3], [Infinity, Infinity, 2]),
      true,
    ),
  ],
};

function sum(title: string, x: NdArray, dims: readonly number[], expected?: NdArray): OpCase {
  return {
    title,
    operation: { op: 'sum', params: { dims } },
    inputs: [x],
    expected: expected ?? {
      shape: x.shape.filter((_, dim) => !dims.includes(dim)),
      dtype: x.dtype,
    },
  };
}

function max(title: string, x: NdArray, dims: readonly number[], expected?: NdArray): OpCase {
  return { ...sum(title, x, dims, expected), operation: { op: 'max', params: { dims } } };
}

function argMax(title: string, x: NdArray, dim: number, expected?: NdArray): OpCase {
  return {
    title,
    operation: { op: 'argMax', params: { dim } },
    inputs: [x],
    expected: expected ?? { shape: x.shape.toSpliced(dim, 1), dtype: 'i32' },
  };
}

function argSort(
  title: string,
  x: NdArray,
  dim: number,
  expected?: NdArray,
  descending = false,
): OpCase {
  return {
    title,
    operation: { op: 'argSort', params: { dim, descending } },
    inputs: [x],
    expected: expected ?? { shape: x.shape, dtype: 'i32' },
  };
}

function cumsum(
  title: string,
  x: NdArray,
  dim: number,
  expected?: NdArray,
  reverse = false,
): OpCase {
  return {
    title,
    operation: { op: 'cumsum', params: { dim, reverse } },
    inputs: [x],
    expected: expected ?? { shape: x.shape, dtype: x.dtype },
  };
}
