import {
  type Chunk,
  commonRuns,
  type DType,
  dtypes,
  fillFully,
  type ModelFolder,
  openFile,
  pathIn,
  type RandomAccessFile,
  type Shape,
  type TensorSource,
  wholeChunk,
} from '@shardwise/core/extend';

/** Consecutive elements of a file. */
export interface Segment {
  readonly file: string;
  readonly dtype: DType;
  readonly byteOffset: number;
  readonly elements: number;
}

/** A tensor whose elements, row by row, lie in several files. */
export interface ScatteredTensor {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly segments: readonly Segment[];
}

/** Elements `start` to `start + count` of segments that follow each other. Fewer if the segments end before. */
export function cut(
  segments: readonly Segment[],
  start: number,
  count: number,
): readonly Segment[] {
  const found: Segment[] = [];
  let at = 0;
  for (const segment of segments) {
    const [from, to] = [Math.max(start, at), Math.min(start + count, at + segment.elements)];
    if (from < to) {
      const byteOffset = segment.byteOffset + (from - at) * dtypes[segment.dtype].bytes;
      found.push({ ...segment, byteOffset, elements: to - from });
    }
    at += segment.elements;
  }
  return found;
}

/** Reads scattered tensors as one source. */
export function scatteredSource(
  folder: ModelFolder,
  tensors: ReadonlyMap<string, ScatteredTensor>,
): TensorSource {
  return {
    place: folder.place,
    names: [...tensors.keys()],
    isVerifiedByReading: false,
    get(name) {
      const found = tensors.get(name);
      return found && { name, dtype: found.dtype, shape: found.shape };
    },
    open() {
      const opened = new Map<string, Promise<RandomAccessFile>>();
      return {
        async fill(name: string, chunk: Chunk, target: Uint8Array<ArrayBuffer>) {
          const tensor = tensors.get(name);
          if (tensor === undefined) throw new RangeError(`no tensor ${name}`);
          const elementBytes = dtypes[tensor.dtype].bytes;
          for (const { first, second, count } of commonRuns(wholeChunk(tensor.shape), chunk)) {
            let at = second * elementBytes;
            for (const { file, byteOffset, elements } of cut(tensor.segments, first, count)) {
              const end = at + elements * elementBytes;
              const open = opened.get(file) ?? openFile(folder, file);
              opened.set(file, open);
              await fillFully(
                await open,
                pathIn(folder, file),
                byteOffset,
                target.subarray(at, end),
              );
              at = end;
            }
          }
        },
        async [Symbol.asyncDispose]() {
          for (const file of opened.values()) await (await file).close();
        },
      };
    },
  };
}
