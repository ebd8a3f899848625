import { BackendError } from '@shardwise/core/spec';
import type { DType, ValueType } from '@shardwise/core/spec';
import { at, NdArray } from './nd-array.ts';

interface Storage {
  /** To the nearest value of the dtype. */
  readonly round: (x: number) => number;
  readonly view: (
    bytes: Uint8Array,
  ) => Float64Array | Float32Array | Float16Array | Int32Array | Uint8Array | BrainFloats;
}

/** bf16 as the upper halves of f32. */
class BrainFloats implements Iterable<number> {
  readonly #bits: Uint16Array;

  constructor(bytes: Uint8Array) {
    this.#bits = new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2);
  }

  *[Symbol.iterator](): Generator<number> {
    for (const bits of this.#bits) yield fromBits(bits << 16);
  }

  /** Values are bf16 already. */
  set(values: ArrayLike<number>): void {
    for (let i = 0; i < values.length; i++) this.#bits[i] = toBits(at(values, i)) >>> 16;
  }
}

const scratch = new DataView(new ArrayBuffer(4));

function fromBits(bits: number): number {
  scratch.setInt32(0, bits);
  return scratch.getFloat32(0);
}

function toBits(value: number): number {
  scratch.setFloat32(0, value);
  return scratch.getUint32(0);
}

/** The nearest bf16 of the nearest f32, ties to even. */
function roundToBrain(x: number): number {
  if (!Number.isFinite(x)) return x;
  const bits = toBits(x);
  return fromBits((bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000);
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
  [
    'f16',
    { round: Math.f16round, view: (b) => new Float16Array(b.buffer, b.byteOffset, b.length / 2) },
  ],
  ['bf16', { round: roundToBrain, view: (b) => new BrainFloats(b) }],
  // Truncates towards zero, and wraps around.
  ['u8', { round: (x) => x & 0xff, view: (b) => b }],
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
