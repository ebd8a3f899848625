/**
 * Types of WebAssembly values that kernels use. A `usize` is an address, a count or a number of bytes. It is an
 * unsigned integer with as many bits as the memory's addresses, which is decided when a module is encoded.
 */
export type ValueKind = 'i32' | 'i64' | 'f32' | 'f64' | 'v128' | 'usize';

/** How many bits the addresses of a memory have: 32 or 64. */
export type Width = 'narrow' | 'wide';

/** Bytes for memories of either width. */
type BytesByWidth = Readonly<Record<Width, Bytes>>;

/** Encoded bytes, nested so that building an expression never copies its parts. */
export type Bytes = readonly (number | Bytes | BytesByWidth)[];

/** How a vector is computed from other vectors. This is for compilers to other instructions than WebAssembly's. */
export interface Operation {
  /**
   * WebAssembly's name of the instruction, `input` for a vector that comes from outside, or a name for several
   * instructions that a compiler knows as one operation.
   */
  readonly name: string;
  readonly inputs: readonly Code<'v128'>[];
  /** The bits of a shift, the lanes of a constant, or the number of an input. */
  readonly numbers: readonly number[];
}

/** Instructions that leave one value of `kind` on the stack, or nothing. */
export interface Code<K extends ValueKind | 'nothing'> {
  readonly kind: K;
  readonly bytes: Bytes;
  /** The operation of a vector that is computed from lanes of other vectors alone. */
  readonly operation?: Operation;
}

export function code<K extends ValueKind | 'nothing'>(kind: K, ...bytes: Bytes): Code<K> {
  return { kind, bytes };
}

/** Code of a vector that says how it comes from others. */
export function vector(
  name: string,
  inputs: readonly Code<'v128'>[],
  numbers: readonly number[],
  ...bytes: Bytes
): Code<'v128'> {
  return { kind: 'v128', bytes, operation: { name, inputs, numbers } };
}

export function flatten(bytes: Bytes, width: Width, into: number[] = []): number[] {
  for (const part of bytes) {
    if (typeof part === 'number') into.push(part);
    else flatten('narrow' in part ? part[width] : part, width, into);
  }
  return into;
}

/** LEB128 of an unsigned integer below 2^32. */
export function unsigned(value: number): number[] {
  const bytes: number[] = [];
  let rest = value >>> 0;
  while (rest >= 0x80) {
    bytes.push((rest & 0x7f) | 0x80);
    rest >>>= 7;
  }
  bytes.push(rest);
  return bytes;
}

/** LEB128 of a signed 32-bit integer. */
export function signed(value: number): number[] {
  const bytes: number[] = [];
  let rest = value | 0;
  while (rest < -0x40 || rest > 0x3f) {
    bytes.push((rest & 0x7f) | 0x80);
    rest >>= 7;
  }
  bytes.push(rest & 0x7f);
  return bytes;
}

/** The bits of an f32, as an i32. */
export function float32Bits(value: number): number {
  return new Int32Array(Float32Array.of(value).buffer)[0] ?? 0;
}

export function float64Bytes(value: number): number[] {
  return [...new Uint8Array(new Float64Array([value]).buffer)];
}

export function int32Bytes(value: number): number[] {
  return [...new Uint8Array(new Int32Array([value]).buffer)];
}
