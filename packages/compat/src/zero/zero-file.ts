import {
  dtypeOfTorch,
  elementCount,
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
} from '@shardwise/core/extend';
import { CheckpointError, type checkpoints } from 'shardwise';
import type { Segment } from './scattered-tensors.ts';

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

  /** The elements of a contiguous tensor. */
  segmentOf(value: PickledValue | undefined, what: string): Segment {
    if (!(value instanceof PickledTensor)) throw this.refuse(`${what} is no tensor`);
    if (!isContiguous(value)) throw this.refuse(`${what} is not contiguous`);
    return {
      file: this.name,
      dtype: dtypeOfTorch(value),
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

/** The entries of a dict that have a text as their key. None for anything else. */
export function namedValues(
  of: PickledValue | undefined,
): readonly (readonly [name: string, value: PickledValue])[] {
  if (!(of instanceof PickledDict)) return [];
  return of.entries.flatMap(([key, value]) =>
    typeof key === 'string' ? [[key, value] as const] : [],
  );
}

/** A number of a dict that counts something, or 0. */
export function countOf(of: PickledValue | undefined, key: string): number {
  const value = valueOf(of, key);
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;
}

/** Plain data. Undefined for anything else, such as a tensor. */
export function jsonOf(value: PickledValue | undefined): checkpoints.JsonValue | undefined {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  const items = itemsOf(value)?.map(jsonOf);
  if (items !== undefined) {
    const known = items.filter((each) => each !== undefined);
    return known.length === items.length ? known : undefined;
  }
  if (!(value instanceof PickledDict)) return undefined;
  const entries = namedValues(value).flatMap(([key, each]): [string, checkpoints.JsonValue][] => {
    const json = jsonOf(each);
    return json === undefined ? [] : [[key, json]];
  });
  return entries.length === value.entries.length ? Object.fromEntries(entries) : undefined;
}
