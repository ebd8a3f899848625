import type { NdArray } from '../../../interpreter/nd-array.ts';
import { bool, counting, f32, i32, integers } from '../host-value.ts';
import type { OpCase, OpCases } from '../op-case.ts';

type Indexing = 'gather' | 'scatterAdd' | 'scatter' | 'indexSelect' | 'indexAdd';

const MATRIX = f32([3, 2], [0, 1, 10, 11, 20, 21]);

export const indexingCases: OpCases<Indexing> = {
  gather: () => [
    gather('along dim 0', 0, MATRIX, i32([2, 2], [2, 0, 1, 1]), f32([2, 2], [20, 1, 10, 11])),
    gather('along dim 1', 1, MATRIX, i32([3, 1], [1, 0, 1]), f32([3, 1], [1, 10, 21])),
    gather(
      'repeated indices',
      1,
      MATRIX,
      i32([3, 3], [0, 0, 0, 1, 1, 1, 0, 1, 0]),
      f32([3, 3], [0, 0, 0, 11, 11, 11, 20, 21, 20]),
    ),
    gather(
      'an index that is smaller off dim',
      1,
      MATRIX,
      i32([2, 2], [1, 0, 0, 1]),
      f32([2, 2], [1, 0, 10, 11]),
    ),
    gather('a vector', 0, f32([3], [5, 6, 7]), i32([4], [2, 2, 0, 1]), f32([4], [7, 7, 5, 6])),
    gather('no indices', 0, MATRIX, i32([0, 2], []), f32([0, 2], [])),
    gather('i32', 0, i32([3], [5, -6, 7]), i32([2], [1, 2]), i32([2], [-6, 7])),
    gather('bool', 0, bool([3], [0, 1, 0]), i32([2], [1, 2]), bool([2], [1, 0])),
    gather(
      'one class of each row',
      1,
      integers([17, 11], 1),
      integers([17, 1], 2, { low: 0, high: 10, dtype: 'i32' }),
    ),
    gather(
      'the middle dim of three',
      1,
      integers([3, 5, 4], 1),
      integers([2, 7, 3], 2, { low: 0, high: 4, dtype: 'i32' }),
    ),
  ],
  scatterAdd: () => [
    scatterAdd(
      'along dim 0',
      0,
      f32([3, 2], 0),
      i32([2, 2], [2, 0, 1, 1]),
      f32([2, 2], [1, 2, 3, 4]),
      f32([3, 2], [0, 2, 3, 4, 1, 0]),
    ),
    scatterAdd(
      'along dim 1',
      1,
      MATRIX,
      i32([3, 1], [1, 0, 1]),
      f32([3, 1], 100),
      f32([3, 2], [0, 101, 110, 11, 20, 121]),
    ),
    scatterAdd(
      'repeated indices add up',
      0,
      f32([2], [1, 1]),
      i32([5], [0, 0, 1, 0, 0]),
      f32([5], [1, 2, 3, 4, 5]),
      f32([2], [13, 4]),
    ),
    scatterAdd(
      'an index that is smaller off dim',
      1,
      f32([2, 3], 0),
      i32([1, 2], [2, 2]),
      f32([1, 2], [3, 4]),
      f32([2, 3], [0, 0, 7, 0, 0, 0]),
    ),
    scatterAdd('no indices', 0, MATRIX, i32([0, 2], []), f32([0, 2], []), MATRIX),
    scatterAdd(
      'one class of each row',
      1,
      integers([17, 11], 1),
      integers([17, 1], 2, { low: 0, high: 10, dtype: 'i32' }),
      integers([17, 1], 3),
    ),
    scatterAdd(
      'the middle dim of three',
      1,
      integers([3, 5, 4], 1),
      integers([2, 7, 3], 2, { low: 0, high: 4, dtype: 'i32' }),
      integers([2, 7, 3], 3),
    ),
  ],
  scatter: () => [
    scatter(
      'along dim 0',
      0,
      f32([3, 2], 0),
      i32([2, 2], [2, 0, 1, 1]),
      f32([2, 2], [1, 2, 3, 4]),
      f32([3, 2], [0, 2, 3, 4, 1, 0]),
    ),
    scatter(
      'along dim 1',
      1,
      MATRIX,
      i32([3, 1], [1, 0, 1]),
      f32([3, 1], 100),
      f32([3, 2], [0, 100, 100, 11, 20, 100]),
    ),
    scatter(
      'the last one of repeated indices',
      0,
      f32([2], [1, 1]),
      i32([5], [0, 0, 1, 0, 0]),
      f32([5], [1, 2, 3, 4, 5]),
      f32([2], [5, 3]),
    ),
    scatter(
      'an index that is smaller off dim',
      1,
      f32([2, 3], 0),
      i32([1, 2], [2, 2]),
      f32([1, 2], [3, 4]),
      f32([2, 3], [0, 0, 4, 0, 0, 0]),
    ),
    scatter('no indices', 0, MATRIX, i32([0, 2], []), f32([0, 2], []), MATRIX),
    scatter('i32', 0, i32([3], [5, -6, 7]), i32([1], [1]), i32([1], [9]), i32([3], [5, 9, 7])),
    scatter('bool', 0, bool([3], 0), i32([2], [1, 2]), bool([2], 1), bool([3], [0, 1, 1])),
    scatter(
      'the middle dim of three',
      1,
      integers([3, 5, 4], 1),
      integers([2, 7, 3], 2, { low: 0, high: 4, dtype: 'i32' }),
      integers([2, 7, 3], 3),
    ),
  ],
  indexSelect: () => [
    indexSelect('rows', 0, MATRIX, i32([2], [2, 0]), f32([2, 2], [20, 21, 0, 1])),
    indexSelect('columns', 1, MATRIX, i32([1], [1]), f32([3, 1], [1, 11, 21])),
    indexSelect(
      'repeated rows',
      0,
      MATRIX,
      i32([4], [1, 1, 1, 0]),
      f32([4, 2], [10, 11, 10, 11, 10, 11, 0, 1]),
    ),
    indexSelect('no rows', 0, MATRIX, i32([0], []), f32([0, 2], [])),
    indexSelect('rows without elements', 0, f32([3, 0], []), i32([2], [2, 1]), f32([2, 0], [])),
    indexSelect('elements of a vector', 0, f32([3], [5, 6, 7]), i32([2], [2, 1]), f32([2], [7, 6])),
    indexSelect('i32', 0, i32([2, 1], [5, -6]), i32([2], [1, 0]), i32([2, 1], [-6, 5])),
    indexSelect('bool', 0, bool([2, 1], [0, 1]), i32([2], [1, 0]), bool([2, 1], [1, 0])),
    indexSelect(
      'the middle dim of three',
      1,
      counting([2, 3, 2]),
      i32([2], [2, 0]),
      f32([2, 2, 2], [4, 5, 0, 1, 10, 11, 6, 7]),
    ),
    indexSelect(
      'an embedding of 300 tokens',
      0,
      integers([50, 9], 1),
      integers([300], 2, { low: 0, high: 49, dtype: 'i32' }),
    ),
  ],
  indexAdd: () => [
    indexAdd(
      'rows',
      0,
      f32([3, 2], 0),
      i32([2], [2, 0]),
      f32([2, 2], [1, 2, 3, 4]),
      f32([3, 2], [3, 4, 0, 0, 1, 2]),
    ),
    indexAdd(
      'columns',
      1,
      MATRIX,
      i32([1], [1]),
      f32([3, 1], [100, 200, 300]),
      f32([3, 2], [0, 101, 10, 211, 20, 321]),
    ),
    indexAdd(
      'repeated rows add up',
      0,
      f32([2, 2], 1),
      i32([3], [1, 1, 1]),
      f32([3, 2], [1, 2, 3, 4, 5, 6]),
      f32([2, 2], [1, 1, 10, 13]),
    ),
    indexAdd('no rows', 0, MATRIX, i32([0], []), f32([0, 2], []), MATRIX),
    indexAdd(
      'rows without elements',
      0,
      f32([3, 0], []),
      i32([2], [2, 2]),
      f32([2, 0], []),
      f32([3, 0], []),
    ),
    indexAdd(
      'elements of a vector',
      0,
      f32([3], 0),
      i32([4], [2, 1, 2, 2]),
      f32([4], [1, 2, 3, 4]),
      f32([3], [0, 2, 8]),
    ),
    indexAdd(
      'the middle dim of three',
      1,
      f32([2, 3, 1], 0),
      i32([2], [2, 2]),
      f32([2, 2, 1], [1, 2, 3, 4]),
      f32([2, 3, 1], [0, 0, 3, 0, 0, 7]),
    ),
    indexAdd(
      'the gradient of an embedding of 300 tokens',
      0,
      f32([50, 9], 0),
      integers([300], 2, { low: 0, high: 49, dtype: 'i32' }),
      integers([300, 9], 3),
    ),
    indexAdd(
      'the gradient of a wide embedding of 150 tokens',
      0,
      integers([20, 70], 1),
      integers([150], 2, { low: 0, high: 19, dtype: 'i32' }),
      integers([150, 70], 3),
    ),
    indexAdd(
      'wide rows of the middle dim of three',
      1,
      integers([2, 5, 33], 1),
      integers([90], 2, { low: 0, high: 4, dtype: 'i32' }),
      integers([2, 90, 33], 3),
    ),
  ],
};

function gather(
  title: string,
  dim: number,
  x: NdArray,
  index: NdArray,
  expected?: NdArray,
): OpCase {
  return {
    title,
    operation: { op: 'gather', params: { dim } },
    inputs: [x, index],
    expected: expected ?? { shape: index.shape, dtype: x.dtype },
  };
}

function scatterAdd(
  title: string,
  dim: number,
  x: NdArray,
  index: NdArray,
  source: NdArray,
  expected?: NdArray,
): OpCase {
  return {
    title,
    operation: { op: 'scatterAdd', params: { dim } },
    inputs: [x, index, source],
    expected: expected ?? { shape: x.shape, dtype: x.dtype },
  };
}

function scatter(
  title: string,
  dim: number,
  x: NdArray,
  index: NdArray,
  source: NdArray,
  expected?: NdArray,
): OpCase {
  return {
    ...scatterAdd(title, dim, x, index, source, expected),
    operation: { op: 'scatter', params: { dim } },
  };
}

function indexSelect(
  title: string,
  dim: number,
  x: NdArray,
  index: NdArray,
  expected?: NdArray,
): OpCase {
  return {
    title,
    operation: { op: 'indexSelect', params: { dim } },
    inputs: [x, index],
    expected: expected ?? { shape: x.shape.with(dim, index.values.length), dtype: x.dtype },
  };
}

function indexAdd(
  title: string,
  dim: number,
  x: NdArray,
  index: NdArray,
  source: NdArray,
  expected?: NdArray,
): OpCase {
  return {
    ...scatterAdd(title, dim, x, index, source, expected),
    operation: { op: 'indexAdd', params: { dim } },
  };
}
