import { describeArray } from '../print/describe-tensor.ts';
import { printing } from '../print/inspect.ts';
import type { DType, Shape } from '../spec/dtype.ts';
import { DTypeError, ShapeError } from '../spec/errors.ts';
import { elementCount, formatShape } from '../base/shape.ts';

/** The typed array for the elements of a dtype. f16 and bf16 are stored as bits, and bool as 0 and 1. */
export interface TypedArrays {
  f64: Float64Array;
  f32: Float32Array;
  f16: Uint16Array;
  bf16: Uint16Array;
  i64: BigInt64Array;
  i32: Int32Array;
  u8: Uint8Array;
  bool: Uint8Array;
}

/** An array in host memory, row-major. `data` may be a view of a larger buffer. */
export type NDArray<D extends DType = DType> = {
  [K in D]: { readonly data: TypedArrays[K]; readonly shape: Shape; readonly dtype: K };
}[D];

/** Arrays by name or position, nested. Samples and batches have this form. */
export type ArrayTree = NDArray | readonly ArrayTree[] | { readonly [name: string]: ArrayTree };

/** Typed arrays whose dtype is known from their class. */
export type PlainTypedArray = Float64Array | Float32Array | BigInt64Array | Int32Array | Uint8Array;

/**
 * Makes an array. The dtype follows from the class of `data` (Float32Array: f32, Int32Array: i32, Uint8Array: u8, ...).
 * The shape is [data.length] unless it is given. Throws ShapeError if it does not fit the number of elements.
 */
export function ndArray(data: Float64Array, shape?: Shape): NDArray<'f64'>;
export function ndArray(data: Float32Array, shape?: Shape): NDArray<'f32'>;
export function ndArray(data: BigInt64Array, shape?: Shape): NDArray<'i64'>;
export function ndArray(data: Int32Array, shape?: Shape): NDArray<'i32'>;
export function ndArray(data: Uint8Array, shape?: Shape): NDArray<'u8'>;
export function ndArray(data: PlainTypedArray, shape: Shape = [data.length]): NDArray {
  if (elementCount(shape) !== data.length) {
    throw new ShapeError(
      {
        asked: `an array of shape ${formatShape(shape)}`,
        found: `${data.length} elements instead of ${elementCount(shape)}`,
        todo: 'Make the product of the dims equal the number of elements',
      },
      { shape, elements: data.length },
    );
  }
  if (data instanceof Float32Array) return printed({ data, shape, dtype: 'f32' });
  if (data instanceof Float64Array) return printed({ data, shape, dtype: 'f64' });
  if (data instanceof Int32Array) return printed({ data, shape, dtype: 'i32' });
  if (data instanceof BigInt64Array) return printed({ data, shape, dtype: 'i64' });
  if (data instanceof Uint8Array) return printed({ data, shape, dtype: 'u8' });
  throw new DTypeError(
    {
      asked: 'an array of typed data',
      found: Object.prototype.toString.call(data),
      todo: 'Use a Float64Array, Float32Array, BigInt64Array, Int32Array or Uint8Array',
    },
    {},
  );
}

const prints = printing<NDArray>(({ dtype, shape, data }, form) => {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return describeArray('NDArray', { dtype, shape, bytes }, form);
});

/** Makes plain data print its values. */
function printed(array: NDArray): NDArray {
  return Object.defineProperties(array, prints);
}

/**
 * Makes arrays that were copied from another thread print like arrays that were made here. Other values stay as they
 * are.
 */
export function printArrays<Tree>(tree: Tree): Tree {
  if (typeof tree !== 'object' || tree === null || ArrayBuffer.isView(tree)) return tree;
  const value: object = tree;
  if ('data' in value && 'shape' in value && 'dtype' in value && ArrayBuffer.isView(value.data)) {
    Object.defineProperties(value, prints);
  } else Object.values(value).forEach(printArrays);
  return tree;
}

export function isNDArray(value: ArrayTree): value is NDArray {
  return 'data' in value && ArrayBuffer.isView(value.data) && 'dtype' in value;
}

type View<D extends DType> = (
  buffer: ArrayBufferLike,
  byteOffset: number,
  elements: number,
  shape: Shape,
) => NDArray<D>;

const views: { [K in DType]: View<K> } = {
  f64: (buffer, at, n, shape) => ({ data: new Float64Array(buffer, at, n), shape, dtype: 'f64' }),
  f32: (buffer, at, n, shape) => ({ data: new Float32Array(buffer, at, n), shape, dtype: 'f32' }),
  f16: (buffer, at, n, shape) => ({ data: new Uint16Array(buffer, at, n), shape, dtype: 'f16' }),
  bf16: (buffer, at, n, shape) => ({ data: new Uint16Array(buffer, at, n), shape, dtype: 'bf16' }),
  i64: (buffer, at, n, shape) => ({ data: new BigInt64Array(buffer, at, n), shape, dtype: 'i64' }),
  i32: (buffer, at, n, shape) => ({ data: new Int32Array(buffer, at, n), shape, dtype: 'i32' }),
  u8: (buffer, at, n, shape) => ({ data: new Uint8Array(buffer, at, n), shape, dtype: 'u8' }),
  bool: (buffer, at, n, shape) => ({ data: new Uint8Array(buffer, at, n), shape, dtype: 'bool' }),
};

/** Makes an array over existing memory. `byteOffset` must be a multiple of the element's size. */
export function ndArrayView(
  dtype: DType,
  shape: Shape,
  buffer: ArrayBufferLike,
  byteOffset = 0,
): NDArray {
  return printed(views[dtype](buffer, byteOffset, elementCount(shape), shape));
}

/** Returns the same tree with every array replaced by the result of `map`. */
export function mapArrays<Tree extends ArrayTree>(
  tree: Tree,
  map: (array: NDArray, path: string) => NDArray,
  path?: string,
): Tree;
export function mapArrays(
  tree: ArrayTree,
  map: (array: NDArray, path: string) => NDArray,
  path = '',
): ArrayTree {
  if (isNDArray(tree)) return map(tree, path);
  if (Array.isArray(tree)) return tree.map((child, i) => mapArrays(child, map, `${path}[${i}]`));
  const entries = Object.entries(tree).map(
    ([name, child]) =>
      [name, mapArrays(child, map, path === '' ? name : `${path}.${name}`)] as const,
  );
  return Object.fromEntries(entries);
}
