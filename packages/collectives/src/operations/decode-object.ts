import { brokenObjectError, ByteReader } from './byte-reader.ts';
import {
  codes,
  FORBIDDEN_KEY,
  MAX_DEPTH,
  typedArrayNames,
  type PlainData,
  type TypedArray,
  type TypedArrayName,
} from './plain-data.ts';

/**
 * The inverse of `encodeObject`. Only builds values: nothing is looked up by name or evaluated, and
 * no more memory is taken than a small multiple of the bytes. Throws DataError for other bytes.
 */
export function decodeObject(bytes: Uint8Array): PlainData {
  const reader = new ByteReader(bytes);
  const value = decode(reader, 0);
  if (reader.remainingBytes > 0) {
    throw brokenObjectError(`${reader.remainingBytes} bytes are left over`);
  }
  return value;
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

/** Every value has a byte at least. */
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
  const name = typedArrayNames[code];
  if (name === undefined) throw brokenObjectError(`${code} is no kind of typed array`);
  const { buffer } = reader.block();
  const { bytes, view } = arrays[name];
  if (buffer.byteLength % bytes === 0) return view(buffer);
  throw brokenObjectError(`${buffer.byteLength} bytes are no ${name}`);
}

/** Made when asked for, as not every browser has all of them. */
const arrays: Record<
  TypedArrayName,
  { readonly bytes: number; readonly view: (buffer: ArrayBuffer) => TypedArray }
> = {
  Uint8Array: { bytes: 1, view: (buffer) => new Uint8Array(buffer) },
  Int8Array: { bytes: 1, view: (buffer) => new Int8Array(buffer) },
  Uint8ClampedArray: { bytes: 1, view: (buffer) => new Uint8ClampedArray(buffer) },
  Int16Array: { bytes: 2, view: (buffer) => new Int16Array(buffer) },
  Uint16Array: { bytes: 2, view: (buffer) => new Uint16Array(buffer) },
  Int32Array: { bytes: 4, view: (buffer) => new Int32Array(buffer) },
  Uint32Array: { bytes: 4, view: (buffer) => new Uint32Array(buffer) },
  Float16Array: { bytes: 2, view: (buffer) => new Float16Array(buffer) },
  Float32Array: { bytes: 4, view: (buffer) => new Float32Array(buffer) },
  Float64Array: { bytes: 8, view: (buffer) => new Float64Array(buffer) },
  BigInt64Array: { bytes: 8, view: (buffer) => new BigInt64Array(buffer) },
  BigUint64Array: { bytes: 8, view: (buffer) => new BigUint64Array(buffer) },
};
