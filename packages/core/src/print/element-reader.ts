import type { DType } from '../spec/dtype.ts';

/** An element as it is printed. Elements of f16 and bf16 are the numbers that their bits stand for. */
export type PrintedElement = number | bigint | boolean;

/** Returns a function that reads single elements, so that only the printed ones of a large tensor are converted. */
export function elementReader(bytes: Uint8Array, dtype: DType): (index: number) => PrintedElement {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const readers: { readonly [K in DType]: (index: number) => PrintedElement } = {
    f64: (index) => view.getFloat64(index * 8, true),
    f32: (index) => view.getFloat32(index * 4, true),
    f16: (index) => view.getFloat16(index * 2, true),
    bf16: (index) => upperHalf(view.getUint16(index * 2, true)),
    i64: (index) => view.getBigInt64(index * 8, true),
    i32: (index) => view.getInt32(index * 4, true),
    u8: (index) => view.getUint8(index),
    bool: (index) => view.getUint8(index) !== 0,
  };
  return readers[dtype];
}

const scratch = new DataView(new ArrayBuffer(4));

/** The value of a bf16, whose bits are the upper half of an f32. */
function upperHalf(bits: number): number {
  scratch.setUint32(0, bits << 16);
  return scratch.getFloat32(0);
}
