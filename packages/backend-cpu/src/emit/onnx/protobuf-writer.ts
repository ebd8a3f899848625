const VARINT = 0;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;

const utf8 = new TextEncoder();

/**
 * Appends fields in the protobuf wire format (https://protobuf.dev/programming-guides/encoding/). It supports only what
 * ONNX models need.
 */
export class ProtobufWriter {
  #bytes = new Uint8Array(1024);
  #length = 0;

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

  bytes(field: number, value: Uint8Array): void {
    this.#varint((field << 3) | LENGTH_DELIMITED);
    this.#varint(value.byteLength);
    this.#reserve(value.byteLength);
    this.#bytes.set(value, this.#length);
    this.#length += value.byteLength;
  }

  string(field: number, value: string): void {
    this.bytes(field, utf8.encode(value));
  }

  message(field: number, fill: (writer: ProtobufWriter) => void): void {
    const inner = new ProtobufWriter();
    fill(inner);
    this.bytes(field, inner.finish());
  }

  /** Returns a view of all bytes written so far. */
  finish(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
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
