import { ConfigError } from '@shardwise/core/spec';
import { ByteWriter } from './byte-writer.ts';
import { codes, FORBIDDEN_KEY, MAX_DEPTH, typedArrayNames } from './plain-data.ts';

/**
 * PlainData as bytes, the inverse of `decodeObject`. Throws ConfigError, which names the place, for
 * functions, symbols, instances of classes, text that is not well-formed, and what contains itself.
 */
export function encodeObject(value: unknown): Uint8Array {
  const writer = new ByteWriter();
  encode(writer, value, []);
  return writer.bytes;
}

/** Where the value is, from the outermost one; written to on the way down, for the message. */
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
    const code = typedArrayNames.findIndex((known) => known === name);
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

/** Of any realm: its prototype is Object.prototype, which has none itself. */
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
