import type { Shape } from '@shardwise/core/spec';
import type { NdArray } from '../../../interpreter/nd-array.ts';
import { bool, counting, f32, hostValue, i32 } from '../host-value.ts';
import { label } from '../op-case.ts';
import type { OpCase, OpCases } from '../op-case.ts';

type Movement = 'reshape' | 'permute' | 'expand' | 'slice' | 'pad' | 'concat';

const MATRIX = counting([2, 3]);
const WHOLE = i32([2, 3], [0, -1, 2, -3, 4, -5]);
const BITS = bool([2, 3], [1, 0, 0, 1, 1, 0]);

export const movementCases: OpCases<Movement> = {
  reshape: () => [
    reshape(MATRIX, [3, 2]),
    reshape(MATRIX, [6]),
    reshape(MATRIX, [1, 2, 1, 3]),
    reshape(MATRIX, [2, 3]),
    reshape(WHOLE, [3, 2]),
    reshape(BITS, [6]),
    reshape(f32([], 5), [1, 1]),
    reshape(f32([1, 1], 5), []),
    reshape(f32([0, 3], []), [3, 0]),
    reshape(f32([2, 0], []), [0]),
  ],
  permute: () => [
    permute(MATRIX, [1, 0], f32([3, 2], [0, 3, 1, 4, 2, 5])),
    permute(MATRIX, [0, 1], MATRIX),
    permute(WHOLE, [1, 0], i32([3, 2], [0, -3, -1, 4, 2, -5])),
    permute(BITS, [1, 0], bool([3, 2], [1, 1, 0, 1, 0, 0])),
    permute(f32([], 5), [], f32([], 5)),
    permute(f32([0, 3], []), [1, 0], f32([3, 0], [])),
    permute(counting([2, 2, 2]), [2, 0, 1], f32([2, 2, 2], [0, 2, 4, 6, 1, 3, 5, 7])),
    permute(counting([2, 3, 5, 7]), [0, 2, 1, 3]),
    permute(counting([2, 3, 5, 7]), [3, 1, 0, 2]),
    permute(counting([3, 1, 4]), [1, 2, 0]),
    permute(counting([33, 65]), [1, 0]),
  ],
  expand: () => [
    expand(f32([1, 3], [1, 2, 3]), f32([2, 3], [1, 2, 3, 1, 2, 3])),
    expand(f32([2, 1], [1, 2]), f32([2, 3], [1, 1, 1, 2, 2, 2])),
    expand(f32([1, 1], 4), f32([3, 5], 4)),
    expand(f32([], 4), f32([], 4)),
    expand(MATRIX, MATRIX),
    expand(i32([1, 2], [7, -8]), i32([2, 2], [7, -8, 7, -8])),
    expand(bool([2, 1], [1, 0]), bool([2, 3], [1, 1, 1, 0, 0, 0])),
    expand(f32([1], 4), f32([0], [])),
    expand(f32([1, 3], [1, 2, 3]), f32([0, 3], [])),
    expand(f32([0, 1], []), f32([0, 4], [])),
    expand(counting([2, 1, 3]), f32([2, 2, 3], [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5])),
    {
      title: 'the outer and inner dims of [1, 5, 1, 3]',
      operation: { op: 'expand', params: { shape: [4, 5, 6, 3] } },
      inputs: [counting([1, 5, 1, 3])],
      expected: { shape: [4, 5, 6, 3], dtype: 'f32' },
    },
  ],
  slice: () => [
    slice(
      'a block',
      counting([3, 4]),
      [
        [1, 3, 1],
        [1, 3, 1],
      ],
      f32([2, 2], [5, 6, 9, 10]),
    ),
    slice(
      'everything',
      MATRIX,
      [
        [0, 2, 1],
        [0, 3, 1],
      ],
      MATRIX,
    ),
    slice('every second', counting([7]), [[0, 7, 2]], f32([4], [0, 2, 4, 6])),
    slice('every third from 1', counting([7]), [[1, 7, 3]], f32([2], [1, 4])),
    slice('a step beyond the end', counting([7]), [[2, 7, 100]], f32([1], [2])),
    slice('nothing', counting([7]), [[3, 3, 1]], f32([0], [])),
    slice(
      'an empty value',
      f32([0, 3], []),
      [
        [0, 0, 1],
        [1, 3, 1],
      ],
      f32([0, 2], []),
    ),
    slice('a scalar', f32([], 5), [], f32([], 5)),
    slice(
      'i32',
      WHOLE,
      [
        [1, 2, 1],
        [0, 3, 2],
      ],
      i32([1, 2], [-3, -5]),
    ),
    slice(
      'bool',
      BITS,
      [
        [0, 2, 1],
        [0, 1, 1],
      ],
      bool([2, 1], [1, 1]),
    ),
    slice(
      'three dims',
      counting([2, 3, 4]),
      [
        [0, 2, 1],
        [1, 3, 1],
        [1, 4, 2],
      ],
      f32([2, 2, 2], [5, 7, 9, 11, 17, 19, 21, 23]),
    ),
  ],
  pad: () => [
    pad(
      'a frame',
      MATRIX,
      [1, 1],
      [1, 1],
      9,
      f32([4, 5], [9, 9, 9, 9, 9, 9, 0, 1, 2, 9, 9, 3, 4, 5, 9, 9, 9, 9, 9, 9]),
    ),
    pad('nothing', MATRIX, [0, 0], [0, 0], 9, MATRIX),
    pad('before only', f32([2], [1, 2]), [2], [0], 0, f32([4], [0, 0, 1, 2])),
    pad('after only', f32([2], [1, 2]), [0], [3], -1, f32([5], [1, 2, -1, -1, -1])),
    pad('with negative infinity', f32([1], 1), [1], [0], -Infinity, f32([2], [-Infinity, 1])),
    pad('an empty value', f32([0, 2], []), [1, 0], [1, 0], 3, f32([2, 2], 3)),
    pad('along an empty dim', f32([0, 2], []), [0, 1], [0, 1], 3, f32([0, 4], [])),
    pad('a scalar', f32([], 5), [], [], 0, f32([], 5)),
    pad('i32', i32([2], [1, 2]), [1], [1], -7, i32([4], [-7, 1, 2, -7])),
    pad('bool with 1', bool([2], [0, 1]), [1], [1], 1, bool([4], [1, 0, 1, 1])),
    pad('bool with 0', bool([2], [1, 1]), [0], [2], 0, bool([4], [1, 1, 0, 0])),
    pad(
      'the middle dim',
      f32([1, 1, 2], [1, 2]),
      [0, 1, 0],
      [0, 1, 0],
      0,
      f32([1, 3, 2], [0, 0, 1, 2, 0, 0]),
    ),
  ],
  concat: () => [
    concat('rows', 0, [MATRIX, f32([1, 3], 9)], f32([3, 3], [0, 1, 2, 3, 4, 5, 9, 9, 9])),
    concat('columns', 1, [MATRIX, f32([2, 1], [8, 9])], f32([2, 4], [0, 1, 2, 8, 3, 4, 5, 9])),
    concat('three', 0, [f32([1], 1), f32([2], 2), f32([1], 3)], f32([4], [1, 2, 2, 3])),
    concat('one', 0, [MATRIX], MATRIX),
    concat('with an empty part', 0, [f32([0, 3], []), MATRIX, f32([0, 3], [])], MATRIX),
    concat('empty parts only', 0, [f32([0, 3], []), f32([0, 3], [])], f32([0, 3], [])),
    concat('parts of an empty row', 0, [f32([1, 0], []), f32([2, 0], [])], f32([3, 0], [])),
    concat('i32', 0, [i32([1], 7), i32([1], -7)], i32([2], [7, -7])),
    concat('bool', 0, [bool([1], 1), bool([2], 0)], bool([3], [1, 0, 0])),
    concat(
      'the last dim of three',
      2,
      [counting([1, 2, 2]), f32([1, 2, 1], [8, 9])],
      f32([1, 2, 3], [0, 1, 8, 2, 3, 9]),
    ),
  ],
};

function reshape(x: NdArray, shape: Shape): OpCase {
  return {
    title: `${x.dtype} ${label(x.shape)} to ${label(shape)}`,
    operation: { op: 'reshape', params: { shape } },
    inputs: [x],
    expected: hostValue(shape, x.dtype, [...x.values]),
  };
}

function permute(x: NdArray, order: readonly number[], expected?: NdArray): OpCase {
  const shape = order.map((dim) => x.shape[dim] ?? 0);
  return {
    title: `${x.dtype} ${label(x.shape)} to the order ${label(order)}`,
    operation: { op: 'permute', params: { order } },
    inputs: [x],
    expected: expected ?? { shape, dtype: x.dtype },
  };
}

function expand(x: NdArray, expected: NdArray): OpCase {
  return {
    title: `${x.dtype} ${label(x.shape)} to ${label(expected.shape)}`,
    operation: { op: 'expand', params: { shape: expected.shape } },
    inputs: [x],
    expected,
  };
}

type Range = readonly [start: number, stop: number, step: number];

function slice(title: string, x: NdArray, ranges: readonly Range[], expected: NdArray): OpCase {
  const params = {
    starts: ranges.map(([start]) => start),
    stops: ranges.map(([, stop]) => stop),
    steps: ranges.map(([, , step]) => step),
  };
  return { title, operation: { op: 'slice', params }, inputs: [x], expected };
}

function pad(
  title: string,
  x: NdArray,
  before: readonly number[],
  after: readonly number[],
  value: number,
  expected: NdArray,
): OpCase {
  return {
    title,
    operation: { op: 'pad', params: { before, after, value } },
    inputs: [x],
    expected,
  };
}

function concat(title: string, dim: number, inputs: readonly NdArray[], expected: NdArray): OpCase {
  return { title, operation: { op: 'concat', params: { dim } }, inputs, expected };
}
