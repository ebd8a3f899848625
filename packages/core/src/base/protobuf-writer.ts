const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;

const utf8 = new TextEncoder();

/** Values of at least this many bytes, such as weights, are not copied before all bytes are joined. */
const LARGE_BYTES = 2 ** 16;

/**
 * Appends fields in the protobuf wire format (https://protobuf.dev/programming-guides/encoding/). It supports only what
 * files of ONNX and of TensorBoard need.
 */
export class ProtobufWriter {
  /** The bytes before those in `#bytes`. */
  readonly #parts: Uint8Array[] = [];
  #partsLength = 0;
  #bytes = new Uint8Array(1024);
  #length = 0;

  get byteLength(): number {
    return this.#partsLength + this.#length;
  }

  /** Writes an int32, int64 or enum. Negative numbers take ten bytes, as the format demands. */
  int(field: number, value: number): void {
    this.#varint((field << 3) | VARINT);
    this.#signedVarint(value);
  }

  float(field: number, value: number): void {
    this.#varint((field << 3) | FIXED32);
    this.#reserve(4);
    new DataView(this.#bytes.buffer).setFloat32(this.#length, value, true);
    this.#length += 4;
  }

  double(field: number, value: number): void {
    this.#varint((field << 3) | FIXED64);
    this.#reserve(8);
    new DataView(this.#bytes.buffer).setFloat64(this.#length, value, true);
    this.#length += 8;
  }

  bytes(field: number, value: Uint8Array): void {
    this.#varint((field << 3) | LENGTH_DELIMITED);
    this.#varint(value.byteLength);
    this.#append(value);
  }

  string(field: number, value: string): void {
    this.bytes(field, utf8.encode(value));
  }

  message(field: number, fill: (writer: ProtobufWriter) => void): void {
    const inner = new ProtobufWriter();
    fill(inner);
    this.#varint((field << 3) | LENGTH_DELIMITED);
    this.#varint(inner.byteLength);
    for (const part of inner.parts()) this.#append(part);
  }

  /** Returns views of all bytes written so far, in their order. */
  parts(): readonly Uint8Array[] {
    return [...this.#parts, this.#bytes.subarray(0, this.#length)];
  }

  /** Returns all bytes written so far. They may be a view of this writer's memory. */
  finish(): Uint8Array {
    const [first = new Uint8Array(0), ...rest] = this.parts();
    if (rest.length === 0) return first;
    const all = new Uint8Array(this.byteLength);
    let offset = 0;
    for (const part of [first, ...rest]) {
      all.set(part, offset);
      offset += part.byteLength;
    }
    return all;
  }

  #append(value: Uint8Array): void {
    if (value.byteLength < LARGE_BYTES) {
      this.#reserve(value.byteLength);
      this.#bytes.set(value, this.#length);
      this.#length += value.byteLength;
      return;
    }
    this.#parts.push(this.#bytes.subarray(0, this.#length), value);
    this.#partsLength += this.#length + value.byteLength;
    this.#bytes = new Uint8Array(1024);
    this.#length = 0;
  }

  #signedVarint(value: number): void {
    if (value >= 0) return this.#varint(value);
    let rest = BigInt.asUintN(64, BigInt(value));
    this.#reserve(10);
    while (rest > 127n) {
      this.#bytes[this.#length++] = Number(rest & 127n) | 128;
      rest >>= 7n;
    }
    this.#bytes[this.#length++] = Number(rest);
  }

  #varint(value: number): void {
    this.#reserve(10);
    let rest = value;
    while (rest > 127) {
      this.#bytes[this.#length++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    this.#bytes[this.#length++] = rest;
  }

  #reserve(byteLength: number): void {
    const needed = this.#length + byteLength;
    if (needed <= this.#bytes.byteLength) return;
    const grown = new Uint8Array(Math.max(needed, this.#bytes.byteLength * 2));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }
}
