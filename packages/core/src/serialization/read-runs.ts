import { type Chunk, wholeChunk } from '../layout/chunks.ts';
import { commonRuns } from '../layout/common-runs.ts';
import type { Shape } from '../spec/dtype.ts';
import { fillFully, type RandomAccessFile, readBytes } from './model-folder.ts';

/** The most bytes that are read together although some of them are not needed. */
const MAX_SPAN_BYTES = 8 * 1024 * 1024;

/** A tensor whose elements lie in a file one after the other, row by row. */
export interface StoredArray {
  /** The path of the file, for errors. */
  readonly path: string;
  readonly byteOffset: number;
  readonly shape: Shape;
  readonly elementBytes: number;
}

/** Bytes that are consecutive in the file and in the target. */
interface Run {
  readonly from: number;
  readonly to: number;
  readonly byteLength: number;
}

/**
 * Fills `target` with the elements of a chunk. Only their bytes are read, and gaps between them that are cheaper to
 * read than to leave out. Throws CheckpointError if the file ends earlier.
 */
export async function readRuns(
  file: RandomAccessFile,
  { path, byteOffset, shape, elementBytes }: StoredArray,
  chunk: Chunk,
  target: Uint8Array<ArrayBuffer>,
): Promise<void> {
  let span: Run[] = [];
  const flush = async (): Promise<void> => {
    const [first] = span;
    const last = span.at(-1);
    if (first === undefined || last === undefined) return;
    if (first === last) {
      await fillFully(
        file,
        path,
        first.from,
        target.subarray(first.to, first.to + first.byteLength),
      );
    } else {
      const length = last.from + last.byteLength - first.from;
      const bytes = await readBytes(file, path, first.from, length);
      for (const { from, to, byteLength } of span) {
        target.set(bytes.subarray(from - first.from, from - first.from + byteLength), to);
      }
    }
    span = [];
  };
  for (const { first, second, count } of commonRuns(wholeChunk(shape), chunk)) {
    const run = {
      from: byteOffset + first * elementBytes,
      to: second * elementBytes,
      byteLength: count * elementBytes,
    };
    const begin = span[0]?.from ?? run.from;
    const last = span.at(-1);
    const gap = last === undefined ? 0 : run.from - last.from - last.byteLength;
    if (gap > file.gapBytes || run.from + run.byteLength - begin > MAX_SPAN_BYTES) await flush();
    span.push(run);
  }
  await flush();
}
