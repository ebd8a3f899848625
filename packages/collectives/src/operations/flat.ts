/** One after the other, in new memory. */
export function concatenate(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
  let start = 0;
  for (const part of parts) {
    whole.set(part, start);
    start += part.byteLength;
  }
  return whole;
}

/** The inverse: fills the parts with what lies one after the other. */
export function spread(whole: Uint8Array, parts: readonly Uint8Array[]): void {
  let start = 0;
  for (const part of parts) {
    part.set(whole.subarray(start, start + part.byteLength));
    start += part.byteLength;
  }
}
