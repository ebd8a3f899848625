import type { HostData } from './host-data.ts';

/** The values of f16 or bf16 elements, which lie as their raw bits. Shape: data [n] -> [n]. */
export function widenFloats(data: HostData, dtype: 'f16' | 'bf16'): Float32Array {
  if (dtype === 'f16') {
    return Float32Array.from(new Float16Array(data.buffer, data.byteOffset, data.byteLength / 2));
  }
  // bf16 is the upper half of an f32.
  const halves = new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2);
  return new Float32Array(Uint32Array.from(halves, (half) => half << 16).buffer);
}
