import { type DType, dtypes, type Shape, type ValueType } from '@shardwise/core/spec';

/** A tensor as bytes, so that values of every dtype can be moved without a change. */
export interface Value extends ValueType {
  readonly bytes: Uint8Array;
}

export function elementCount(shape: Shape): number {
  return shape.reduce((product, size) => product * size, 1);
}

export function byteLength({ shape, dtype }: ValueType): number {
  return elementCount(shape) * dtypes[dtype].bytes;
}

export function emptyValue({ shape, dtype }: ValueType): Value {
  return { shape, dtype, bytes: new Uint8Array(byteLength({ shape, dtype })) };
}

/** Returns the elements, row by row. */
export function numbersOf({ dtype, bytes }: Value): Float64Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const size = dtypes[dtype].bytes;
  return Float64Array.from({ length: bytes.byteLength / size }, (_, i) =>
    read[dtype](view, i * size),
  );
}

/** Makes a value. Rounds the numbers to the dtype. */
export function valueOf(type: ValueType, numbers: ArrayLike<number>): Value {
  const value = emptyValue(type);
  const view = new DataView(value.bytes.buffer);
  const size = dtypes[type.dtype].bytes;
  for (let i = 0; i < numbers.length; i++) write[type.dtype](view, i * size, numbers[i] ?? 0);
  return value;
}

/** Casts i64 without converting it to numbers, which only have 53 bits. */
export function castLong(x: Value, type: ValueType): Value {
  const view = new DataView(x.bytes.buffer, x.bytes.byteOffset, x.bytes.byteLength);
  const count = elementCount(x.shape);
  const longs = Array.from({ length: count }, (_, i) => view.getBigInt64(8 * i, true));
  if (type.dtype === 'i64') return { ...type, bytes: x.bytes.slice() };
  if (type.dtype === 'bool')
    return valueOf(
      type,
      longs.map((each) => Number(each !== 0n)),
    );
  const numberOf =
    dtypes[type.dtype].kind === 'int' ? lowHalf : type.dtype === 'f64' ? Number : odd;
  return valueOf(type, longs.map(numberOf));
}

function lowHalf(long: bigint): number {
  return Number(BigInt.asIntN(32, long));
}

/**
 * Rounds an i64 to 53 bits. If bits are cut off, the last bit kept is set, so that a cast to a narrower float rounds
 * only once.
 */
function odd(long: bigint): number {
  const isExact = long === BigInt.asIntN(53, long);
  return isExact ? Number(long) : Number((long >> 11n) | (long & 0x7ffn ? 1n : 0n)) * 2048;
}

const read: Readonly<Record<DType, (view: DataView, at: number) => number>> = {
  f64: (view, at) => view.getFloat64(at, true),
  f32: (view, at) => view.getFloat32(at, true),
  f16: (view, at) => view.getFloat16(at, true),
  bf16: (view, at) => fromBits(view.getUint16(at, true) << 16),
  i64: (view, at) => Number(view.getBigInt64(at, true)),
  i32: (view, at) => view.getInt32(at, true),
  u8: (view, at) => view.getUint8(at),
  bool: (view, at) => view.getUint8(at),
};

const write: Readonly<Record<DType, (view: DataView, at: number, x: number) => void>> = {
  f64: (view, at, x) => view.setFloat64(at, x, true),
  f32: (view, at, x) => view.setFloat32(at, x, true),
  f16: (view, at, x) => view.setFloat16(at, Math.fround(x), true),
  bf16: (view, at, x) => view.setUint16(at, bfloatBits(x), true),
  i64: (view, at, x) => view.setBigInt64(at, Number.isFinite(x) ? BigInt(Math.trunc(x)) : 0n, true),
  i32: (view, at, x) => view.setInt32(at, x, true),
  u8: (view, at, x) => view.setUint8(at, x),
  bool: (view, at, x) => view.setUint8(at, x === 0 ? 0 : 1),
};

const word = new DataView(new ArrayBuffer(4));

function fromBits(bits: number): number {
  word.setInt32(0, bits);
  return word.getFloat32(0);
}

/** Returns the upper half of an f32, rounded to nearest, ties to even. */
function bfloatBits(x: number): number {
  word.setFloat32(0, x);
  const bits = word.getUint32(0);
  if (Number.isNaN(x)) return (bits >>> 16) | 0x40;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}
