/** The data that operations on objects can send. Objects are literals, or have no prototype. */
export type PlainData =
  | undefined
  | null
  | boolean
  | number
  /** A signed number of 64 bits. */
  | bigint
  | string
  | TypedArray
  | readonly PlainData[]
  | { readonly [key: string]: PlainData };

/** The typed arrays that operations on objects can send. */
export type TypedArray =
  | Uint8Array
  | Int8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | Float16Array
  | Float32Array
  | Float64Array
  | BigInt64Array
  | BigUint64Array;
