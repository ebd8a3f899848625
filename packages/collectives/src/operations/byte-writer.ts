import { ConfigError } from '@shardwise/core/spec';

/** The most bytes of the memory. Some browsers do not allow longer arrays of bytes. */
const MAX_BYTES = 2 ** 31 - 1;

/** Writes little-endian numbers and bytes one after the other into memory that grows. */
export class ByteWriter {
  #bytes = new Uint8Array(256);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;

  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  u8(value: number): void {
    const at = this.#take(1);
    this.#view.setUint8(at, value);
  }

  u32(value: number): void {
    const at = this.#take(4);
    this.#view.setUint32(at, value, true);
  }

  f64(value: number): void {
    const at = this.#take(8);
    this.#view.setFloat64(at, value, true);
  }

  i64(value: bigint): void {
    const at = this.#take(8);
    this.#view.setBigInt64(at, value, true);
  }

  /** Writes the number of bytes as u32, then the bytes. */
  block(bytes: Uint8Array): void {
    this.u32(bytes.byteLength);
    const at = this.#take(bytes.byteLength);
    this.#bytes.set(bytes, at);
  }

  /** Makes room for this many bytes, perhaps in new memory, and returns where they begin. */
  #take(byteLength: number): number {
    const start = this.#length;
    const needed = start + byteLength;
    if (needed > MAX_BYTES) throw tooLongError(needed);
    if (needed > this.#bytes.byteLength) {
      const grown = new Uint8Array(Math.min(Math.max(needed, 2 * start), MAX_BYTES));
      grown.set(this.bytes);
      this.#bytes = grown;
      this.#view = new DataView(grown.buffer);
    }
    this.#length = needed;
    return start;
  }
}

function tooLongError(bytes: number): ConfigError {
  return new ConfigError(
    {
      asked: `An object of ${bytes} bytes or more`,
      found: `an object may have ${MAX_BYTES}`,
      todo: 'Send large arrays with the operations for buffers',
    },
    { bytes, maxBytes: MAX_BYTES },
  );
}
