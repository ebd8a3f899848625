import type { Shape } from '../spec/dtype.ts';
import { type Chunk, wholeChunk } from './chunks.ts';
import { commonRuns } from './common-runs.ts';

/** Copies the elements of chunks from the bytes of the whole tensor, one chunk after the other. */
export function takeChunks(
  whole: Uint8Array,
  shape: Shape,
  chunks: readonly Chunk[],
  elementBytes: number,
): Uint8Array<ArrayBuffer> {
  const all = wholeChunk(shape);
  const elements = chunks.reduce((sum, { start, stop }) => sum + stop - start, 0);
  const taken = new Uint8Array(elements * elementBytes);
  let offset = 0;
  for (const chunk of chunks) {
    for (const { first, second, count } of commonRuns(all, chunk)) {
      const run = whole.subarray(first * elementBytes, (first + count) * elementBytes);
      taken.set(run, offset + second * elementBytes);
    }
    offset += (chunk.stop - chunk.start) * elementBytes;
  }
  return taken;
}
