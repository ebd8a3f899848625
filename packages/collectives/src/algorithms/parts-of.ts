/** Views of the bytes with these lengths, one after the other. */
export function partsOf(bytes: Uint8Array, lengths: ArrayLike<number>): readonly Uint8Array[] {
  let start = 0;
  return Array.from(lengths, (byteLength) => {
    const part = bytes.subarray(start, start + byteLength);
    start += byteLength;
    return part;
  });
}
