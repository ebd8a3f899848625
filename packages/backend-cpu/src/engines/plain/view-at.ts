import type { DType } from '@shardwise/core/spec';

interface Views {
  readonly f64: Float64Array;
  readonly f32: Float32Array;
  readonly f16: Uint16Array;
  readonly bf16: Uint16Array;
  readonly i64: BigInt64Array;
  readonly i32: Int32Array;
  readonly u8: Uint8Array;
  readonly bool: Uint8Array;
}

type MakeView<D extends DType> = new (
  buffer: ArrayBufferLike,
  byteOffset: number,
  length: number,
) => Views[D];

const views: { readonly [D in DType]: MakeView<D> } = {
  f64: Float64Array,
  f32: Float32Array,
  f16: Uint16Array,
  bf16: Uint16Array,
  i64: BigInt64Array,
  i32: Int32Array,
  u8: Uint8Array,
  bool: Uint8Array,
};

/** Returns a view of elements of a memory. 16-bit floats appear as their bits. */
export function viewAt<D extends DType>(
  { buffer }: WebAssembly.Memory,
  dtype: D,
  address: number,
  count: number,
): Views[D] {
  return new views[dtype](buffer, address, count);
}
