/** The dtypes in which gradients travel. */
export type SentDtype = 'f32' | 'f16' | 'bf16';

export const sentBytes: Readonly<Record<SentDtype, number>> = { f32: 4, f16: 2, bf16: 2 };

/** Converts a received gradient to f32. If it is f32 already, returns a view. Shape: bytes of [n] elements -> [n]. */
export function receivedGradient(bytes: Uint8Array, dtype: SentDtype): Float32Array {
  const size = sentBytes[dtype];
  const aligned = bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes);
  const { buffer, byteOffset } = aligned;
  const length = aligned.byteLength / size;
  switch (dtype) {
    case 'f32':
      return new Float32Array(buffer, byteOffset, length);
    case 'f16':
      return new Float32Array(new Float16Array(buffer, byteOffset, length));
    case 'bf16': {
      // bf16 is the upper half of an f32.
      const halves = new Uint16Array(buffer, byteOffset, length);
      const wide = new Uint32Array(length);
      for (let index = 0; index < length; index++) wide[index] = halves[index]! << 16;
      return new Float32Array(wide.buffer);
    }
    default:
      return dtype satisfies never;
  }
}

/** The number of bytes of all arrays. */
export function bytesIn(arrays: readonly Uint8Array[]): number {
  return arrays.reduce((sum, { byteLength }) => sum + byteLength, 0);
}
