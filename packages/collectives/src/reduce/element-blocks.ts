import type { DType } from '@shardwise/core/spec';

/** The memory in which a block of elements is reduced. It is f32 for 16-bit floats, and the dtype itself for others. */
export type Accumulator = Float32Array | Float64Array | Int32Array | Uint8Array | BigInt64Array;

/** Moves elements of a dtype between memory and accumulators. `start` and `count` are numbers of elements. */
export interface ElementBlocks {
  readonly create: (count: number) => Accumulator;
  readonly view: (bytes: Uint8Array) => ElementView;
}

export interface ElementView {
  load(start: number, count: number, into: Accumulator): void;
  store(start: number, count: number, from: Accumulator): void;
}

export const elementBlocks: Record<DType, ElementBlocks> = {
  f64: plain(
    (count) => new Float64Array(count),
    (b, o, n) => new Float64Array(b, o, n / 8),
  ),
  f32: plain(
    (count) => new Float32Array(count),
    (b, o, n) => new Float32Array(b, o, n / 4),
  ),
  i64: plain(
    (count) => new BigInt64Array(count),
    (b, o, n) => new BigInt64Array(b, o, n / 8),
  ),
  i32: plain(
    (count) => new Int32Array(count),
    (b, o, n) => new Int32Array(b, o, n / 4),
  ),
  u8: plain(
    (count) => new Uint8Array(count),
    (b, o, n) => new Uint8Array(b, o, n),
  ),
  bool: plain(
    (count) => new Uint8Array(count),
    (b, o, n) => new Uint8Array(b, o, n),
  ),
  f16: plain(
    (count) => new Float32Array(count),
    (b, o, n) => new Float16Array(b, o, n / 2),
  ),
  bf16: {
    create: (count) => new Float32Array(count),
    view: (bytes) =>
      bfloat16View(new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 2)),
  },
};

type Memory = Accumulator | Float16Array;

function plain(
  create: (count: number) => Accumulator,
  open: (buffer: ArrayBufferLike, byteOffset: number, byteLength: number) => Memory,
): ElementBlocks {
  return {
    create,
    view: (bytes) => {
      const memory = open(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      return {
        load: (start, count, into) => copy(memory.subarray(start, start + count), into, 0),
        store: (start, count, from) => copy(from.subarray(0, count), memory, start),
      };
    },
  };
}

function copy(from: Memory, to: Memory, at: number): void {
  if (from instanceof BigInt64Array) {
    if (to instanceof BigInt64Array) to.set(from, at);
  } else if (!(to instanceof BigInt64Array)) {
    to.set(from, at);
  }
}

function bfloat16View(memory: Uint16Array): ElementView {
  return {
    load: (start, count, into) => {
      for (let i = 0; i < count; i++) into[i] = fromBfloat16(memory[start + i] ?? 0);
    },
    store: (start, count, from) => {
      for (let i = 0; i < count; i++) memory[start + i] = toBfloat16(Number(from[i]));
    },
  };
}

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

/** The number whose bf16 has these 16 bits. */
export function fromBfloat16(value: number): number {
  bits[0] = value << 16;
  return float[0] ?? Number.NaN;
}

/** The 16 bits of the nearest bf16, ties to even. NaN stays a quiet NaN. */
export function toBfloat16(value: number): number {
  float[0] = value;
  const word = bits[0] ?? 0;
  if (value !== value) return (word >>> 16) | 0x40;
  return (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
}
