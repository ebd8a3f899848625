import {
  CheckpointError,
  type Chunk,
  commonRuns,
  dtypes,
  dtypeOfTorch,
  elementCount,
  fillFully,
  isContiguous,
  type ModelFolder,
  openFile,
  openTorchObject,
  pathIn,
  PickledDict,
  PickledList,
  PickledTensor,
  PickledTuple,
  type PickledValue,
  type RandomAccessFile,
  type Shape,
  type TensorSource,
  wholeChunk,
} from '@shardwise/core/extend';

/** Consecutive elements of f32 in a file. */
export interface Segment {
  readonly file: string;
  readonly byteOffset: number;
  readonly elements: number;
}

/** A tensor whose elements, row by row, lie in several files. */
export interface ScatteredTensor {
  readonly shape: Shape;
  readonly segments: readonly Segment[];
}

const ELEMENT_BYTES = dtypes.f32.bytes;

/** The objects of a file of a checkpoint, and where its tensors lie. */
export class ZeroFile {
  readonly name: string;
  readonly #path: string;
  readonly #value: PickledDict;
  readonly #byteOffsetOf: (tensor: PickledTensor, name: string) => number;

  private constructor(
    name: string,
    path: string,
    value: PickledDict,
    byteOffsetOf: (tensor: PickledTensor, name: string) => number,
  ) {
    this.name = name;
    this.#path = path;
    this.#value = value;
    this.#byteOffsetOf = byteOffsetOf;
  }

  /** Throws CheckpointError for a file that is missing, damaged, or with anything but plain data and tensors. */
  static async open(folder: ModelFolder, name: string): Promise<ZeroFile> {
    const path = pathIn(folder, name);
    const file = await openFile(folder, name);
    try {
      const { value, byteOffsetOf } = await openTorchObject(file, path);
      if (value instanceof PickledDict) return new ZeroFile(name, path, value, byteOffsetOf);
    } finally {
      await file.close();
    }
    throw brokenFile(path, 'an object that is no dict');
  }

  get root(): PickledDict {
    return this.#value;
  }

  /** The elements of a contiguous tensor of f32. */
  segmentOf(value: PickledValue | undefined, what: string): Segment {
    if (!(value instanceof PickledTensor)) throw this.refuse(`${what} is no tensor`);
    if (!isContiguous(value)) throw this.refuse(`${what} is not contiguous`);
    if (dtypeOfTorch(value) !== 'f32')
      throw this.refuse(`${what} is ${dtypeOfTorch(value)}, not f32`);
    return {
      file: this.name,
      byteOffset: this.#byteOffsetOf(value, what),
      elements: elementCount(value.shape),
    };
  }

  refuse(found: string): CheckpointError {
    return brokenFile(this.#path, found);
  }
}

/** The error for a file or folder that DeepSpeed has not written. */
export function brokenFile(path: string, found: string): CheckpointError {
  return new CheckpointError(
    {
      asked: `Reading the checkpoint of DeepSpeed ${path}`,
      found,
      todo: 'Give a folder that save_checkpoint of DeepSpeed wrote in ZeRO stage 1, 2 or 3',
    },
    { path },
  );
}

/** The value of a key of a dict. */
export function valueOf(
  of: PickledValue | undefined,
  key: string | number,
): PickledValue | undefined {
  if (!(of instanceof PickledDict)) return undefined;
  return of.entries.find(([each]) => each === key)?.[1];
}

/** The items of a list or tuple. Undefined for anything else. */
export function itemsOf(of: PickledValue | undefined): readonly PickledValue[] | undefined {
  return of instanceof PickledList || of instanceof PickledTuple ? of.items : undefined;
}

/** Elements `start` to `start + count` of segments that follow each other. Fewer if the segments end before. */
export function cut(
  segments: readonly Segment[],
  start: number,
  count: number,
): readonly Segment[] {
  const found: Segment[] = [];
  let at = 0;
  for (const { file, byteOffset, elements } of segments) {
    const [from, to] = [Math.max(start, at), Math.min(start + count, at + elements)];
    if (from < to) {
      found.push({
        file,
        byteOffset: byteOffset + (from - at) * ELEMENT_BYTES,
        elements: to - from,
      });
    }
    at += elements;
  }
  return found;
}

/** Reads scattered tensors of f32 as one source. */
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
      return found && { name, dtype: 'f32', shape: found.shape };
    },
    open() {
      const opened = new Map<string, Promise<RandomAccessFile>>();
      return {
        async fill(name: string, chunk: Chunk, target: Uint8Array<ArrayBuffer>) {
          const tensor = tensors.get(name);
          if (tensor === undefined) throw new RangeError(`no tensor ${name}`);
          for (const { first, second, count } of commonRuns(wholeChunk(tensor.shape), chunk)) {
            let at = second * ELEMENT_BYTES;
            for (const { file, byteOffset, elements } of cut(tensor.segments, first, count)) {
              const end = at + elements * ELEMENT_BYTES;
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
