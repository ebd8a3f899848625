/** Copies all parts into new memory, one after the other. */
export function concatenate(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
  let start = 0;
  for (const part of parts) {
    whole.set(part, start);
    start += part.byteLength;
  }
  return whole;
}

/** Copies bytes that lie one after the other into the parts. It is the inverse of concatenate. */
export function spread(whole: Uint8Array, parts: readonly Uint8Array[]): void {
  let start = 0;
  for (const part of parts) {
    part.set(whole.subarray(start, start + part.byteLength));
    start += part.byteLength;
  }
}
