import { FRAGMENT_BYTES } from '../reduce/reducer.ts';

/** The length in bytes of fragments that pass through many ranks: shorter ones keep more of the ranks busy. */
export const PIPELINE_BYTES: number = 256 * 1024;

/** Views of the fragments of the bytes, in order. The last one may be shorter. */
export function fragmentsOf(
  bytes: Uint8Array,
  fragmentBytes: number = FRAGMENT_BYTES,
): readonly Uint8Array[] {
  const count = Math.ceil(bytes.byteLength / fragmentBytes);
  return Array.from({ length: count }, (_, index) =>
    bytes.subarray(index * fragmentBytes, (index + 1) * fragmentBytes),
  );
}

/** Cuts a buffer into `count` slices of whole elements. The last ones may be shorter, or empty. */
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
