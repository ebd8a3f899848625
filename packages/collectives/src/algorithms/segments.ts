/** A piece of a long message can be used while the next is on its way. */
const SEGMENT_BYTES = 1 << 20;

export function segmentsOf(bytes: Uint8Array): readonly Uint8Array[] {
  const count = Math.ceil(bytes.byteLength / SEGMENT_BYTES);
  return Array.from({ length: count }, (_, index) =>
    bytes.subarray(index * SEGMENT_BYTES, (index + 1) * SEGMENT_BYTES),
  );
}
