/** What object forms carry. Objects are plain: literals, or without a prototype. */
export type PlainData =
  | undefined
  | null
  | boolean
  | number
  /** Of 64 bits, signed. */
  | bigint
  | string
  | TypedArray
  | readonly PlainData[]
  | { readonly [key: string]: PlainData };

export type TypedArray = InstanceType<(typeof globalThis)[TypedArrayName]>;

/** In the order of their codes on the wire. */
export const typedArrayNames = [
  'Uint8Array',
  'Int8Array',
  'Uint8ClampedArray',
  'Int16Array',
  'Uint16Array',
  'Int32Array',
  'Uint32Array',
  'Float16Array',
  'Float32Array',
  'Float64Array',
  'BigInt64Array',
  'BigUint64Array',
] as const;

export type TypedArrayName = (typeof typedArrayNames)[number];

/** The first byte of every value. */
export const codes = {
  undefined: 0,
  null: 1,
  false: 2,
  true: 3,
  /** f64 */
  number: 4,
  /** i64 */
  bigint: 5,
  /** u32 bytes, UTF-8 */
  string: 6,
  /** u32 count, values */
  array: 7,
  /** u32 count, and for each a string without its code, and a value */
  object: 8,
  /** u8 code of its name, u32 bytes, bytes */
  typedArray: 9,
} as const;

/** Values inside values; what contains itself is deeper. */
export const MAX_DEPTH = 100;

/** As a key it would set the prototype of the objects that it is copied to. */
export const FORBIDDEN_KEY = '__proto__';
