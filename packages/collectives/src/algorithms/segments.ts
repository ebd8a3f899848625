/** A piece of a long message can be used while the next is on its way. */
const SEGMENT_BYTES = 1 << 20;

/** Where messages pass through many ranks, shorter pieces keep more of them busy. */
export const PIPELINE_BYTES: number = 256 * 1024;

export function segmentsOf(
  bytes: Uint8Array,
  segmentBytes: number = SEGMENT_BYTES,
): readonly Uint8Array[] {
  const count = Math.ceil(bytes.byteLength / segmentBytes);
  return Array.from({ length: count }, (_, index) =>
    bytes.subarray(index * segmentBytes, (index + 1) * segmentBytes),
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
