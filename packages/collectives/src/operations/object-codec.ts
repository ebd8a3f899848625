import { ConfigError } from '@shardwise/core/spec';
import { brokenObjectError, ByteReader } from './byte-reader.ts';
import { ByteWriter } from './byte-writer.ts';
import type { PlainData, TypedArray } from './object-data.ts';

/** The first byte of every value. The comments say what follows it. */
const codes = {
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
  /** u8 place of its name in `typedArrays`, u32 bytes, bytes */
  typedArray: 9,
} as const;

/**
 * The typed arrays in the order of their codes. Constructors are looked up when they are needed, because some browsers
 * lack Float16Array.
 */
const typedArrays: readonly (readonly [string, (buffer: ArrayBuffer) => TypedArray])[] = [
  ['Uint8Array', (buffer) => new Uint8Array(buffer)],
  ['Int8Array', (buffer) => new Int8Array(buffer)],
  ['Uint8ClampedArray', (buffer) => new Uint8ClampedArray(buffer)],
  ['Int16Array', (buffer) => new Int16Array(buffer)],
  ['Uint16Array', (buffer) => new Uint16Array(buffer)],
  ['Int32Array', (buffer) => new Int32Array(buffer)],
  ['Uint32Array', (buffer) => new Uint32Array(buffer)],
  ['Float16Array', (buffer) => new Float16Array(buffer)],
  ['Float32Array', (buffer) => new Float32Array(buffer)],
  ['Float64Array', (buffer) => new Float64Array(buffer)],
  ['BigInt64Array', (buffer) => new BigInt64Array(buffer)],
  ['BigUint64Array', (buffer) => new BigUint64Array(buffer)],
];

/** How many values may lie inside one another. A value that contains itself exceeds every limit. */
const MAX_DEPTH = 100;

/** This key would set the prototype of objects to which the entries are copied. */
const FORBIDDEN_KEY = '__proto__';

/**
 * Encodes PlainData as bytes. It is the inverse of `decodeObject`. Throws ConfigError, which names the place, for
 * functions, symbols, instances of classes, text that is not well-formed, and values that contain themselves.
 */
export function encodeObject(value: unknown): Uint8Array {
  const writer = new ByteWriter();
  encode(writer, value, []);
  return writer.bytes;
}

/**
 * The inverse of `encodeObject`. It only builds values. It looks nothing up by a name that it read, evaluates nothing,
 * and takes no more memory than a small multiple of the bytes. Throws DataError for other bytes.
 */
export function decodeObject(bytes: Uint8Array): PlainData {
  const reader = new ByteReader(bytes);
  const value = decode(reader, 0);
  if (reader.remainingBytes > 0) {
    throw brokenObjectError(`${reader.remainingBytes} bytes are left over`);
  }
  return value;
}

/** The keys and indices that lead to a value from the outermost one, for the message of an error. */
type Path = (string | number)[];

function encode(writer: ByteWriter, value: unknown, path: Path): void {
  switch (typeof value) {
    case 'undefined':
      return writer.u8(codes.undefined);
    case 'boolean':
      return writer.u8(value ? codes.true : codes.false);
    case 'number':
      writer.u8(codes.number);
      return writer.f64(value);
    case 'bigint':
      if (BigInt.asIntN(64, value) !== value) throw refusal(path, 'a bigint of more than 64 bits');
      writer.u8(codes.bigint);
      return writer.i64(value);
    case 'string':
      writer.u8(codes.string);
      return encodeText(writer, value, path);
    case 'object':
      if (path.length > MAX_DEPTH) throw refusal([], `something more than ${MAX_DEPTH} deep`);
      return value === null ? writer.u8(codes.null) : encodeComposite(writer, value, path);
    default:
      throw refusal(path, `a ${typeof value}`);
  }
}

function encodeComposite(writer: ByteWriter, value: object, path: Path): void {
  if (Array.isArray(value)) {
    writer.u8(codes.array);
    writer.u32(value.length);
    for (let index = 0; index < value.length; index++) {
      path.push(index);
      encode(writer, value[index], path);
      path.pop();
    }
  } else if (ArrayBuffer.isView(value)) {
    const name = Object.prototype.toString.call(value).slice('[object '.length, -1);
    const code = typedArrays.findIndex(([known]) => known === name);
    if (code < 0) throw refusal(path, `a ${name}`);
    writer.u8(codes.typedArray);
    writer.u8(code);
    writer.block(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  } else {
    if (!isPlain(value)) throw refusal(path, `a ${value.constructor?.name ?? 'special object'}`);
    const entries = Object.entries(value);
    writer.u8(codes.object);
    writer.u32(entries.length);
    for (const [key, item] of entries) {
      if (key === FORBIDDEN_KEY) throw refusal(path, `something with the key ${FORBIDDEN_KEY}`);
      encodeText(writer, key, path);
      path.push(key);
      encode(writer, item, path);
      path.pop();
    }
  }
}

function encodeText(writer: ByteWriter, text: string, path: Path): void {
  if (!text.isWellFormed()) throw refusal(path, 'text with half a surrogate pair');
  writer.block(new TextEncoder().encode(text));
}

/** Whether an object's prototype is null or the Object.prototype of any realm, which has no prototype itself. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function refusal(path: Path, what: string): ConfigError {
  const place = ['value', ...path].join('.');
  return new ConfigError(
    {
      asked: `Sending an object whose ${place} is ${what}`,
      found: 'objects are sent as plain data',
      todo: 'Pass numbers, text, booleans, typed arrays, and arrays and plain objects of them',
    },
    { place },
  );
}

function decode(reader: ByteReader, depth: number): PlainData {
  if (depth > MAX_DEPTH + 1) throw brokenObjectError(`it is more than ${MAX_DEPTH} deep`);
  const code = reader.u8();
  switch (code) {
    case codes.undefined:
      return undefined;
    case codes.null:
      return null;
    case codes.false:
      return false;
    case codes.true:
      return true;
    case codes.number:
      return reader.f64();
    case codes.bigint:
      return reader.i64();
    case codes.string:
      return decodeText(reader);
    case codes.array:
      return decodeArray(reader, depth);
    case codes.object:
      return decodeRecord(reader, depth);
    case codes.typedArray:
      return decodeTypedArray(reader);
    default:
      throw brokenObjectError(`${code} is no kind of value`);
  }
}

function decodeArray(reader: ByteReader, depth: number): readonly PlainData[] {
  const values: PlainData[] = [];
  for (let left = countOf(reader); left > 0; left--) values.push(decode(reader, depth + 1));
  return values;
}

function decodeRecord(reader: ByteReader, depth: number): { readonly [key: string]: PlainData } {
  const entries: [string, PlainData][] = [];
  for (let left = countOf(reader); left > 0; left--) {
    const key = decodeText(reader);
    if (key === FORBIDDEN_KEY) throw brokenObjectError(`it has the key ${FORBIDDEN_KEY}`);
    entries.push([key, decode(reader, depth + 1)]);
  }
  return Object.fromEntries(entries);
}

/** Reads a count. Refuses one that cannot be true, because every value takes a byte or more. */
function countOf(reader: ByteReader): number {
  const count = reader.u32();
  if (count <= reader.remainingBytes) return count;
  throw brokenObjectError(`${count} values should follow in ${reader.remainingBytes} bytes`);
}

function decodeText(reader: ByteReader): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(reader.block());
  } catch (error) {
    if (error instanceof TypeError) throw brokenObjectError('text is not UTF-8');
    throw error;
  }
}

function decodeTypedArray(reader: ByteReader): TypedArray {
  const code = reader.u8();
  const [name, view] = typedArrays[code] ?? [];
  if (view === undefined) throw brokenObjectError(`${code} is no kind of typed array`);
  const { buffer } = reader.block();
  try {
    return view(buffer);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw brokenObjectError(`${buffer.byteLength} bytes are no ${name}`);
  }
}
