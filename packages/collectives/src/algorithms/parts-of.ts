/** Parts of these lengths, one after the other, without a copy. */
export function partsOf(bytes: Uint8Array, lengths: ArrayLike<number>): readonly Uint8Array[] {
  let start = 0;
  return Array.from(lengths, (byteLength) => {
    const part = bytes.subarray(start, start + byteLength);
    start += byteLength;
    return part;
  });
}
