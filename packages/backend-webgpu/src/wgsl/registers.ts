import type { DType } from '@shardwise/core/spec';

/** The WGSL types in which kernels hold an element of a dtype. */
type RegisterType = 'f32' | 'i32' | 'bool' | 'u32' | 'vec2<u32>';

interface Storage {
  readonly register: RegisterType;
  readonly bytes: 1 | 2 | 4 | 8;
  /** Converts the bits of a word, or of two words, to the register. `store` converts back. */
  readonly load: (bits: string) => string;
  readonly store: (value: string) => string;
}

const word = (register: 'f32' | 'i32'): Storage => ({
  register,
  bytes: 4,
  load: (bits) => `bitcast<${register}>(${bits})`,
  store: (value) => `bitcast<u32>(${value})`,
});
const raw = (register: 'u32' | 'vec2<u32>', bytes: 1 | 2 | 8): Storage => ({
  register,
  bytes,
  load: (bits) => bits,
  store: (value) => value,
});

/** How elements of each dtype lie in memory, which kernels see as words of 32 bits. */
export const storageOf: Readonly<Record<DType, Storage>> = {
  f32: word('f32'),
  i32: word('i32'),
  bool: {
    register: 'bool',
    bytes: 1,
    load: (bits) => `(${bits} != 0u)`,
    store: (value) => `select(0u, 1u, ${value})`,
  },
  u8: raw('u32', 1),
  f16: raw('u32', 2),
  bf16: raw('u32', 2),
  f64: raw('vec2<u32>', 8),
  i64: raw('vec2<u32>', 8),
};

/** A number as a literal of a dtype. Numbers with which WGSL may not compute are given by their bits. */
export function literal(value: number, dtype: DType): string {
  return literals[dtype](value);
}

const literals: Readonly<Record<DType, (value: number) => string>> = {
  f32: (value) => floatLiteral(Math.fround(value)),
  i32: (value) => `i32(${Math.trunc(value) | 0})`,
  bool: (value) => (value === 0 ? 'false' : 'true'),
  u8: (value) => `${Math.trunc(value) & 255}u`,
  f16: (value) => `${new Uint16Array(Float16Array.of(value).buffer)[0] ?? 0}u`,
  bf16: (value) => `${roundToBf16(value)}u`,
  f64: (value) => pair(new Uint32Array(Float64Array.of(value).buffer)),
  i64: (value) => pair(new Uint32Array(BigInt64Array.of(BigInt(Math.trunc(value))).buffer)),
};

function floatLiteral(value: number): string {
  const isPlain = Number.isFinite(value) && (Math.abs(value) >= 2 ** -126 || Object.is(value, 0));
  return isPlain ? `(${value}f)` : `f32_of_bits(${bitsOf(value)}u)`;
}

function bitsOf(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0] ?? 0;
}

function roundToBf16(value: number): number {
  const bits = bitsOf(value);
  if (Number.isNaN(value)) return 0x7fc0;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

function pair(words: Uint32Array): string {
  return `vec2<u32>(${words[0] ?? 0}u, ${words[1] ?? 0}u)`;
}
