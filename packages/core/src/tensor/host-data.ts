import { requireElement } from '../graph/require-element.ts';
import type { DType } from '../spec/dtype.ts';
import { TensorStateError } from '../spec/errors.ts';

/**
 * Elements on the host, for `fromData` and from `data()`. f16 and bf16 are raw 16 bits, which not every engine
 * has a typed array for. Convert with `.to('f32')` to read them.
 */
export type HostData =
  | Float32Array
  | Float64Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint16Array;

/** A view of bytes as elements. It copies the bytes if they are not aligned. */
export function fromBytes(bytes: Uint8Array, dtype: DType): HostData {
  switch (dtype) {
    case 'f32':
      return view(bytes, 4, (buffer, offset, length) => new Float32Array(buffer, offset, length));
    case 'f64':
      return view(bytes, 8, (buffer, offset, length) => new Float64Array(buffer, offset, length));
    case 'i32':
      return view(bytes, 4, (buffer, offset, length) => new Int32Array(buffer, offset, length));
    case 'i64':
      return view(bytes, 8, (buffer, offset, length) => new BigInt64Array(buffer, offset, length));
    case 'f16':
    case 'bf16':
      return view(bytes, 2, (buffer, offset, length) => new Uint16Array(buffer, offset, length));
    case 'u8':
    case 'bool':
      return bytes;
    default:
      return dtype satisfies never;
  }
}

function view<T>(
  bytes: Uint8Array,
  size: number,
  make: (buffer: ArrayBufferLike, offset: number, length: number) => T,
): T {
  // bytes.slice() would not do: the slice() of Node's Buffer does not copy.
  const aligned = bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes);
  return make(aligned.buffer, aligned.byteOffset, aligned.byteLength / size);
}

/** The bytes of elements, without a copy. Throws TensorStateError for an array whose buffer is detached. */
export function toBytes(data: HostData): Uint8Array {
  const { buffer } = data;
  if (buffer instanceof ArrayBuffer && buffer.detached) {
    throw new TensorStateError({
      asked: `The elements of a ${data.constructor.name}`,
      found: 'its memory was given to a parameter made of it',
      todo: 'Give each tensor an array of its own, as array.slice()',
    });
  }
  return data instanceof Uint8Array
    ? data
    : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** The value of the only element. Throws DTypeError for an i64 that a JavaScript number does not hold exactly. */
export function onlyElement(data: HostData, dtype: DType): number {
  const [value] = dtype === 'f16' || dtype === 'bf16' ? widenFloats(data, dtype) : data;
  const number = Number(value);
  requireElement(dtype, number);
  return number;
}

/** Encodes numbers as elements of a dtype. Throws DTypeError for a number that the dtype cannot represent. */
export function encodeNumbers(
  values: readonly (number | boolean)[],
  dtype: 'f32' | 'i32' | 'bool',
): HostData {
  const numbers = values.map(Number);
  for (const number of numbers) requireElement(dtype, number);
  if (dtype === 'f32') return Float32Array.from(numbers);
  if (dtype === 'i32') return Int32Array.from(numbers);
  return Uint8Array.from(numbers);
}

/** Whether an array is of the class that holds a dtype's elements. */
export function holds(data: HostData, dtype: DType): boolean {
  return (
    fromBytes(new Uint8Array(0), dtype).constructor === data.constructor ||
    (data instanceof Uint8Array && (dtype === 'u8' || dtype === 'bool'))
  );
}

/** The values of f16 or bf16 elements, which `data` has as raw bits. Shape: data [n] -> [n]. */
export function widenFloats(data: HostData, dtype: 'f16' | 'bf16'): Float32Array {
  if (dtype === 'f16') {
    return new Float32Array(new Float16Array(data.buffer, data.byteOffset, data.byteLength / 2));
  }
  // bf16 is the upper half of an f32.
  const halves = new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2);
  return new Float32Array(new Uint32Array(halves).map((half) => half << 16).buffer);
}
