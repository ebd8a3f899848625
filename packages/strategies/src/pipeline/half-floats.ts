import type { HalfDType } from '@shardwise/core/extend';

/** Rounds f32 values to the nearest 16-bit float, ties to even. Shape: [n] -> [n]. */
export function narrowed(bytes: Uint8Array, dtype: HalfDType): Uint8Array {
  const { buffer, byteOffset, byteLength } = bytes;
  if (dtype === 'f16') {
    const halves = new Float16Array(new Float32Array(buffer, byteOffset, byteLength / 4));
    return new Uint8Array(halves.buffer);
  }
  const words = new Uint32Array(buffer, byteOffset, byteLength / 4);
  const halves = new Uint16Array(words.length);
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? 0;
    const isNaN = (word & 0x7fffffff) > 0x7f800000;
    halves[at] = isNaN ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  }
  return new Uint8Array(halves.buffer);
}

/** Converts 16-bit floats back to f32. Shape: [n] -> [n]. */
export function widened(
  { buffer, byteOffset, byteLength }: Uint8Array,
  dtype: HalfDType,
): Uint8Array {
  if (dtype === 'f16') {
    const values = new Float32Array(new Float16Array(buffer, byteOffset, byteLength / 2));
    return new Uint8Array(values.buffer);
  }
  const halves = new Uint16Array(buffer, byteOffset, byteLength / 2);
  const words = new Uint32Array(halves.length);
  for (let at = 0; at < halves.length; at++) words[at] = (halves[at] ?? 0) << 16;
  return new Uint8Array(words.buffer);
}
