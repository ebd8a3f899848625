import { type DType, dtypes, type TypedBytes } from '@shardwise/core/spec';

/** Elements as numbers, in memory that starts at any byte. */
export function typed(
  dtype: DType,
  values: readonly number[],
  options: { readonly byteOffset?: number } = {},
): TypedBytes {
  const { bytes: elementBytes } = dtypes[dtype];
  const byteOffset = options.byteOffset ?? 0;
  const buffer = new ArrayBuffer(byteOffset + values.length * elementBytes);
  const view = new DataView(buffer, byteOffset);
  for (const [index, value] of values.entries()) write[dtype](view, index * elementBytes, value);
  return { bytes: new Uint8Array(buffer, byteOffset), dtype };
}

/** A buffer of zeros. */
export function zeros(dtype: DType, elements: number): TypedBytes {
  return { bytes: new Uint8Array(elements * dtypes[dtype].bytes), dtype };
}

/** The values of a buffer as numbers. */
export function valuesOf({ bytes, dtype }: TypedBytes): number[] {
  const { bytes: elementBytes } = dtypes[dtype];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: bytes.byteLength / elementBytes }, (_, index) =>
    read[dtype](view, index * elementBytes),
  );
}

const write: Record<DType, (view: DataView, at: number, value: number) => void> = {
  f64: (view, at, value) => view.setFloat64(at, value, true),
  f32: (view, at, value) => view.setFloat32(at, value, true),
  f16: (view, at, value) => view.setFloat16(at, value, true),
  bf16: (view, at, value) => view.setUint16(at, bfloat16Bits(value), true),
  i64: (view, at, value) => view.setBigInt64(at, BigInt(value), true),
  i32: (view, at, value) => view.setInt32(at, value, true),
  u8: (view, at, value) => view.setUint8(at, value),
  bool: (view, at, value) => view.setUint8(at, value),
};

const read: Record<DType, (view: DataView, at: number) => number> = {
  f64: (view, at) => view.getFloat64(at, true),
  f32: (view, at) => view.getFloat32(at, true),
  f16: (view, at) => view.getFloat16(at, true),
  bf16: (view, at) => {
    const word = new DataView(new ArrayBuffer(4));
    word.setUint32(0, view.getUint16(at, true) << 16);
    return word.getFloat32(0);
  },
  i64: (view, at) => Number(view.getBigInt64(at, true)),
  i32: (view, at) => view.getInt32(at, true),
  u8: (view, at) => view.getUint8(at),
  bool: (view, at) => view.getUint8(at),
};

/** Returns the upper half of an f32, rounded to nearest, ties to even. */
export function bfloat16Bits(value: number): number {
  const word = new DataView(new ArrayBuffer(4));
  word.setFloat32(0, value);
  const upper = word.getUint16(0);
  const lower = word.getUint16(2);
  const isUp = lower > 0x8000 || (lower === 0x8000 && upper % 2 === 1);
  return isUp ? upper + 1 : upper;
}

/** The numbers from 0 to `count` - 1. */
export function range(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}
