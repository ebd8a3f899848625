const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

/** The f32 with these upper 16 bits. */
export function fromBfloat16(value: number): number {
  bits[0] = value << 16;
  return float[0] ?? Number.NaN;
}

/** Upper 16 bits of the nearest bf16, ties to even; NaN stays a quiet NaN. */
export function toBfloat16(value: number): number {
  float[0] = value;
  const word = bits[0] ?? 0;
  if (value !== value) return (word >>> 16) | 0x40;
  return (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
}
