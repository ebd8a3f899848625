import { requireSizes } from '../graph/infer-checks.ts';
import { constant } from '../graph/ops/leaf.ts';
import { concat as concatNodes } from '../graph/ops/movement.ts';
import { inputNode } from '../graph/create-node.ts';
import { rankState } from '../ambient.ts';
import { requireDTypeName } from '../dtype-name.ts';
import { elementCount, formatShape, normalizeDim, sameShape } from '../base/shape.ts';
import { checkOptions } from '../base/check-options.ts';
import type { DType, Shape } from '../spec/dtype.ts';
import { describeValue, DTypeError, ShapeError } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import type { NDArray } from './nd-array.ts';
import { encodeNumbers, holds, type HostData, toBytes } from './host-data.ts';
import { composed } from '../realize/pending/small-values.ts';
import { requireTensors } from './check-arguments.ts';
import { Tensor } from './tensor.ts';

/** Numbers or booleans in nested arrays, with one level for each dim of the tensor. */
export type NestedNumbers = number | boolean | readonly NestedNumbers[];

/** Options of `tensor`. */
export interface TensorOptions {
  /** Whether backward passes give the tensor a gradient. Default: false. */
  readonly requiresGrad?: boolean;
}

/**
 * A tensor with the values of nested arrays. Without a dtype, numbers become f32 and booleans bool. Throws ShapeError
 * for rows of different lengths, and DTypeError for a gradient of integers or bools.
 * Shape: `[[1, 2], [3, 4]]` -> [2, 2].
 */
export function tensor(
  values: NestedNumbers,
  dtype?: 'f32' | 'i32' | 'bool',
  options: TensorOptions = {},
): Tensor {
  if (dtype !== undefined) checkOptions('tensor', { dtype }, dtypeRules);
  checkOptions('tensor', options, tensorRules);
  const shape: number[] = [];
  for (let level = values; Array.isArray(level); level = level[0] ?? 0) shape.push(level.length);
  const flat: (number | boolean)[] = [];
  const visit = (value: NestedNumbers, depth: number): void => {
    if (typeof value === 'number' || typeof value === 'boolean') {
      if (depth !== shape.length) throw raggedError(shape, depth);
      flat.push(value);
      return;
    }
    if (!Array.isArray(value)) throw elementError(value);
    if (value.length !== shape[depth]) throw raggedError(shape, depth);
    for (const item of value) visit(item, depth + 1);
  };
  visit(values, 0);
  const inferred = dtype ?? (typeof flat[0] === 'boolean' ? 'bool' : 'f32');
  const made = fromData(encodeNumbers(flat, inferred), shape, inferred);
  return options.requiresGrad === true ? made.requiresGrad_() : made;
}

const tensorRules: OptionRules<TensorOptions> = { requiresGrad: option.flag };
const dtypeRules: OptionRules<{ dtype?: 'f32' | 'i32' | 'bool' }> = {
  dtype: option.oneOf('f32', 'i32', 'bool'),
};

function elementError(value: unknown): DTypeError {
  return new DTypeError({
    asked: 'a tensor of nested arrays',
    found: `${describeValue(value)} among its elements`,
    todo: ArrayBuffer.isView(value)
      ? "Give a typed array to fromData(array, shape, 'f32')"
      : 'Use numbers or booleans, nested in arrays',
  });
}

function raggedError(shape: Shape, depth: number): ShapeError {
  return new ShapeError(
    {
      asked: 'a tensor of nested arrays',
      found: `rows of different lengths at depth ${depth}, where the first are of shape ${formatShape(shape)}`,
      todo: 'Give all rows of a dim the same length',
    },
    { shape, depth },
  );
}

/** A tensor with the elements of a typed array. From now on, the tensor owns the array. */
export function fromData(data: HostData, shape: Shape, dtype: DType): Tensor {
  requireType('fromData', shape, dtype);
  requireSizes('fromData', shape);
  const count = elementCount(shape);
  if (!ArrayBuffer.isView(data) || !holds(data, dtype)) {
    throw new DTypeError(
      {
        asked: `a ${dtype} tensor of shape ${formatShape(shape)}`,
        found: `its elements in ${describeValue(data)}`,
        todo: 'Use the typed array of the dtype (f32: Float32Array, i32: Int32Array, bool: Uint8Array)',
      },
      { dtype },
    );
  }
  if (data.length !== count) {
    throw new ShapeError(
      {
        asked: `a tensor of shape ${formatShape(shape)} (${count} elements)`,
        found: `${data.length} elements`,
        todo: 'Give as many elements as the shape has',
      },
      { shape, elements: data.length },
    );
  }
  const make = rankState.makeLeaf ?? inputNode;
  return new Tensor(make(shape, dtype, { kind: 'host', bytes: toBytes(data) }));
}

/** A tensor with the values of an array of a dataset or a batch. Shape: -> array.shape. */
export function fromArray(array: NDArray): Tensor {
  const given: unknown = array;
  if (typeof given !== 'object' || given === null || !('shape' in given && 'dtype' in given)) {
    throw new DTypeError({
      asked: 'a tensor over an NDArray',
      found: describeValue(given),
      todo: 'Give what data.ndArray() or a batch of a DataLoader is, or numbers to tensor([…])',
    });
  }
  return fromData(array.data, array.shape, array.dtype);
}

/** A tensor whose elements are all `value`. Shape: -> shape. */
export function full(shape: Shape, value: number, dtype: DType = 'f32'): Tensor {
  requireType('full', shape, dtype);
  return new Tensor(constant(value, shape, dtype));
}

/** A tensor of zeros. Shape: -> shape. */
export function zeros(shape: Shape, dtype: DType = 'f32'): Tensor {
  requireType('zeros', shape, dtype);
  return full(shape, 0, dtype);
}

/** A tensor of ones. Shape: -> shape. */
export function ones(shape: Shape, dtype: DType = 'f32'): Tensor {
  requireType('ones', shape, dtype);
  return full(shape, 1, dtype);
}

function requireType(operation: string, shape: Shape, dtype: DType): void {
  // The shape is checked first: in zeros(2, 3), the mistake is the shape, although the dtype is wrong, too.
  if (Array.isArray(shape)) return requireDTypeName(operation, dtype);
  throw new ShapeError(
    {
      asked: `${operation} of shape ${describeValue(shape)}`,
      found: 'no list of sizes',
      todo: 'Give a list: [2, 3] for 2 rows of 3, [] for a scalar',
    },
    { shape },
  );
}

/** A tensor whose elements are all `value`, with the shape and by default the dtype of `like`. Shape: like N -> N. */
export function fullLike(like: Tensor, value: number, dtype: DType = like.dtype): Tensor {
  requireTensors('fullLike', { like });
  return full(like.shape, value, dtype);
}

/** A tensor of zeros, with the shape and by default the dtype of another tensor. Shape: like N -> N. */
export function zerosLike(like: Tensor, dtype: DType = like.dtype): Tensor {
  requireTensors('zerosLike', { like });
  return full(like.shape, 0, dtype);
}

/** A tensor of ones, with the shape and by default the dtype of another tensor. Shape: like N -> N. */
export function onesLike(like: Tensor, dtype: DType = like.dtype): Tensor {
  requireTensors('onesLike', { like });
  return full(like.shape, 1, dtype);
}

/** Joins tensors along an existing dim. Shape: [.., A, ..], [.., B, ..] -> [.., A+B, ..]. */
export function concat(tensors: readonly Tensor[], dim = 0): Tensor {
  const [first] = tensors;
  if (first === undefined) throw noTensors('concat');
  requireTensors('concat', Object.fromEntries(tensors.entries()));
  return new Tensor(
    concatNodes(
      tensors.map((t) => t.node),
      normalizeDim('concat', dim, first.ndim),
    ),
  );
}

/** Joins tensors along a new dim. Throws ShapeError for different shapes. Shape: n times N -> [.., n, ..]. */
export function stack(tensors: readonly Tensor[], dim = 0): Tensor {
  const [first] = tensors;
  if (first === undefined) throw noTensors('stack');
  requireTensors('stack', Object.fromEntries(tensors.entries()));
  const other = tensors.findIndex(({ shape }) => !sameShape(shape, first.shape));
  if (other >= 0) {
    const { shape } = tensors[other] ?? first;
    throw new ShapeError(
      {
        asked: `stack of ${tensors.length} tensors`,
        found: `tensor 0 of shape ${formatShape(first.shape)} and tensor ${other} of ${formatShape(shape)}`,
        todo: 'Give tensors of one shape, or use concat, which joins along a dim that is there',
      },
      { shapes: tensors.map(({ shape: each }) => each) },
    );
  }
  return composed(() =>
    concat(
      tensors.map((t) => t.unsqueeze(dim)),
      dim,
    ),
  );
}

function noTensors(operation: string): ShapeError {
  return new ShapeError({
    asked: operation,
    found: 'no tensors',
    todo: 'Give at least one tensor',
  });
}
