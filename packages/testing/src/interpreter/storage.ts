import { BackendError } from '@shardwise/core/spec';
import type { DType, ValueType } from '@shardwise/core/spec';
import { NdArray } from './nd-array.ts';

interface Storage {
  /** To the nearest value of the dtype. */
  readonly round: (x: number) => number;
  readonly view: (bytes: Uint8Array) => Float64Array | Float32Array | Int32Array | Uint8Array;
}

/** How the dtypes that the interpreter computes with lie in memory. */
export const storages: ReadonlyMap<DType, Storage> = new Map<DType, Storage>([
  ['f64', { round: (x) => x, view: (b) => new Float64Array(b.buffer, b.byteOffset, b.length / 8) }],
  [
    'f32',
    { round: Math.fround, view: (b) => new Float32Array(b.buffer, b.byteOffset, b.length / 4) },
  ],
  [
    'i32',
    // Truncates towards zero, and wraps around.
    { round: (x) => x | 0, view: (b) => new Int32Array(b.buffer, b.byteOffset, b.length / 4) },
  ],
  ['bool', { round: (x) => (x === 0 ? 0 : 1), view: (b) => b }],
]);

export function load(bytes: Uint8Array, type: ValueType): NdArray {
  return new NdArray(type, Float64Array.from(storageOf(type.dtype).view(bytes)));
}

export function store(value: NdArray, bytes: Uint8Array): void {
  storageOf(value.dtype).view(bytes).set(value.values);
}

export function roundToDType({ values, dtype }: NdArray): void {
  const { round } = storageOf(dtype);
  for (const [i, x] of values.entries()) values[i] = round(x);
}

export function storageOf(dtype: DType): Storage {
  const storage = storages.get(dtype);
  if (storage) return storage;
  throw new BackendError(
    {
      asked: `to compute with ${dtype}`,
      found: `the interpreter computes with ${[...storages.keys()].join(', ')}`,
      todo: 'Cast the value on the host first',
    },
    { dtype },
  );
}
