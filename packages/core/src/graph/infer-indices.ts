import { elementCount, formatShape, sizeAt } from '../base/shape.ts';
import type { ValueType } from '../spec/dtype.ts';
import { DTypeError, ShapeError } from '../spec/errors.ts';
import { at, numbers, requireDType, shapeFault } from './infer-checks.ts';

/** Checks x and the index of an op that has one index for each element that it takes or adds. */
export function requireElementIndices(op: string, dim: number, inputs: readonly ValueType[]): void {
  const [x, index] = [at(inputs, 0), at(inputs, 1)];
  requireIndices(op, dim, x, index);
  const fits =
    x.shape.length === index.shape.length &&
    index.shape.every((size, d) => d === dim || size <= sizeAt(x.shape, d));
  if (fits) return;
  throw shapeFault(
    op,
    inputs,
    'an index that does not fit',
    `Use an index with as many dims, and no larger off dim ${dim}`,
  );
}

/** Checks x and the index of an op that has one index for each row. */
export function requireRowIndices(op: string, dim: number, inputs: readonly ValueType[]): void {
  const [x, index] = [at(inputs, 0), at(inputs, 1)];
  requireIndices(op, dim, x, index);
  if (index.shape.length === 1) return;
  throw shapeFault(op, inputs, `an index of ${index.shape.length} dims`, 'Use an index of one dim');
}

export function requireAddend(op: string, x: ValueType, source: ValueType): void {
  requireDType(op, x, numbers);
  if (x.dtype === source.dtype) return;
  throw new DTypeError(
    {
      asked: `${op} of ${source.dtype} elements to ${x.dtype}`,
      found: 'two dtypes',
      todo: `Convert the source with .to('${x.dtype}')`,
    },
    { op, dtypes: [x.dtype, source.dtype] },
  );
}

/** Checks the dtype of indices. `op` is the operation that the user called. */
export function requireIndexDType(op: string, { dtype, shape }: ValueType): void {
  if (dtype === 'i32') return;
  throw new DTypeError(
    {
      asked: `${op} with indices of dtype ${dtype} and shape ${formatShape(shape)}`,
      found: 'indices and labels are i32',
      todo: "Convert them with .to('i32'), or make them as tensor(values, 'i32')",
    },
    { op, dtype, allowed: ['i32'] },
  );
}

function requireIndices(op: string, dim: number, x: ValueType, index: ValueType): void {
  requireIndexDType(op, index);
  if (x.shape[dim] !== 0 || elementCount(index.shape) === 0) return;
  throw new ShapeError(
    {
      asked: `${op} along dim ${dim} of a tensor of shape ${formatShape(x.shape)}`,
      found: `${elementCount(index.shape)} indices, where there is nothing to index`,
      todo: 'Use a tensor with at least one element along that dim',
    },
    { op, dim, shape: x.shape },
  );
}
