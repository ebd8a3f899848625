/** Algorithms send long messages in fragments: one can be used while the next one is on its way. */
export const FRAGMENT_BYTES: number = 1 << 20;

/** The length of fragments that pass through many ranks: shorter ones keep more of the ranks busy. */
export const PIPELINE_BYTES: number = 256 * 1024;

/** Views of the bytes, in order; the last one may be shorter. */
export function fragmentsOf(
  bytes: Uint8Array,
  fragmentBytes: number = FRAGMENT_BYTES,
): readonly Uint8Array[] {
  const count = Math.ceil(bytes.byteLength / fragmentBytes);
  return Array.from({ length: count }, (_, index) =>
    bytes.subarray(index * fragmentBytes, (index + 1) * fragmentBytes),
  );
}

/** `count` slices of whole elements; the last ones may be shorter, or empty. */
export function slicesOf(
  buffer: Uint8Array,
  count: number,
  elementBytes: number,
): readonly Uint8Array[] {
  const elements = Math.ceil(buffer.byteLength / elementBytes / count);
  const sliceBytes = elements * elementBytes;
  return Array.from({ length: count }, (_, index) =>
    buffer.subarray(index * sliceBytes, (index + 1) * sliceBytes),
  );
}
