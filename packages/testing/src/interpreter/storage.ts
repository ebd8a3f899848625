import type { DType, ValueType } from '@shardwise/core/spec';
import { at, NdArray } from './nd-array.ts';

interface Storage {
  /** Rounds to the nearest value of the dtype. */
  readonly round: (x: number) => number;
  readonly view: (
    bytes: Uint8Array,
  ) => Float64Array | Float32Array | Float16Array | Int32Array | Uint8Array | BrainFloats | Longs;
}

/** bf16 values, stored as the upper halves of f32. */
class BrainFloats implements Iterable<number> {
  readonly #bits: Uint16Array;

  constructor(bytes: Uint8Array) {
    this.#bits = new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2);
  }

  *[Symbol.iterator](): Generator<number> {
    for (const bits of this.#bits) yield fromBits(bits << 16);
  }

  /** Stores values that have been rounded to bf16 already. */
  set(values: ArrayLike<number>): void {
    for (let i = 0; i < values.length; i++) this.#bits[i] = toBits(at(values, i)) >>> 16;
  }
}

/** i64 values as numbers, which are exact up to 2^53. */
class Longs implements Iterable<number> {
  readonly #integers: BigInt64Array;

  constructor(bytes: Uint8Array) {
    this.#integers = new BigInt64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8);
  }

  *[Symbol.iterator](): Generator<number> {
    for (const integer of this.#integers) yield Number(integer);
  }

  set(values: ArrayLike<number>): void {
    for (let i = 0; i < values.length; i++) this.#integers[i] = BigInt(at(values, i));
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

/** Returns the bf16 nearest to the nearest f32, ties to even. */
function roundToBrain(x: number): number {
  if (!Number.isFinite(x)) return x;
  const bits = toBits(x);
  return fromBits((bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000);
}

/** How each dtype is stored in memory. */
const storages: { readonly [D in DType]: Storage } = {
  f64: { round: (x) => x, view: (b) => new Float64Array(b.buffer, b.byteOffset, b.length / 8) },
  f32: {
    round: Math.fround,
    view: (b) => new Float32Array(b.buffer, b.byteOffset, b.length / 4),
  },
  // Rounds to f32 first, as for bf16.
  f16: {
    round: (x) => Math.f16round(Math.fround(x)),
    view: (b) => new Float16Array(b.buffer, b.byteOffset, b.length / 2),
  },
  bf16: { round: roundToBrain, view: (b) => new BrainFloats(b) },
  i64: { round: Math.trunc, view: (b) => new Longs(b) },
  // Truncates towards zero, and wraps around.
  i32: { round: (x) => x | 0, view: (b) => new Int32Array(b.buffer, b.byteOffset, b.length / 4) },
  u8: { round: (x) => x & 0xff, view: (b) => b },
  bool: { round: (x) => (x === 0 ? 0 : 1), view: (b) => b },
};

export function load(bytes: Uint8Array, type: ValueType): NdArray {
  return new NdArray(type, Float64Array.from(storages[type.dtype].view(bytes)));
}

export function store(value: NdArray, bytes: Uint8Array): void {
  storages[value.dtype].view(bytes).set(value.values);
}

export function roundToDType({ values, dtype }: NdArray): void {
  const { round } = storages[dtype];
  for (const [i, x] of values.entries()) values[i] = round(x);
}
