import type { Shape } from '../spec/dtype.ts';
import type { Chunk } from './chunks.ts';

/** Copies the elements of chunks from the bytes of the whole tensor, one chunk after the other. */
export function takeChunks(
  whole: Uint8Array,
  shape: Shape,
  chunks: readonly Chunk[],
  elementBytes: number,
): Uint8Array<ArrayBuffer> {
  const elements = chunks.reduce((sum, { start, stop }) => sum + stop - start, 0);
  const taken = new Uint8Array(elements * elementBytes);
  let end = 0;
  for (const chunk of chunks) {
    const run = consecutive(chunk, shape);
    for (let row = 0; row < chunk.stop; row += run) {
      const first = Math.max(row, chunk.start);
      const last = Math.min(row + run, chunk.stop);
      if (first >= last) continue;
      const from = offsetOf(row, chunk, shape) + first - row;
      const bytes = whole.subarray(from * elementBytes, (from + last - first) * elementBytes);
      taken.set(bytes, end * elementBytes);
      end += last - first;
    }
  }
  return taken;
}

/** The number of elements of a chunk's box that lie one after another in the tensor. */
function consecutive({ box }: Chunk, shape: Shape): number {
  const inner = box.findLastIndex(({ start, stop }, dim) => stop - start !== shape[dim]);
  return box.slice(Math.max(0, inner)).reduce((run, { start, stop }) => run * (stop - start), 1);
}

/** The place in the tensor of an element of a chunk's box. */
function offsetOf(element: number, { box }: Chunk, shape: Shape): number {
  let rest = element;
  let stride = 1;
  return box.reduceRight((offset, { start, stop }, dim) => {
    const index = rest % (stop - start);
    const own = (start + index) * stride;
    rest = (rest - index) / (stop - start);
    stride *= shape[dim] ?? 1;
    return offset + own;
  }, 0);
}
