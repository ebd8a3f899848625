import type { TensorChunk } from './held-chunk.ts';

/** The same for chunks of one tensor that have the same elements. */
export function chunkKey({ name, box, start, stop }: TensorChunk): string {
  return JSON.stringify([name, box, start, stop]);
}
