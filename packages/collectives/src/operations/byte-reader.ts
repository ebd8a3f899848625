import { DataError } from '@shardwise/core/spec';

/** Reads what a ByteWriter wrote. Throws DataError if fewer bytes are left than a value takes. */
export class ByteReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get remainingBytes(): number {
    return this.#bytes.byteLength - this.#at;
  }

  u8(): number {
    return this.#view.getUint8(this.#take(1));
  }

  u32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }

  f64(): number {
    return this.#view.getFloat64(this.#take(8), true);
  }

  i64(): bigint {
    return this.#view.getBigInt64(this.#take(8), true);
  }

  /** A copy of the bytes that a ByteWriter's `block` wrote. */
  block(): Uint8Array<ArrayBuffer> {
    const byteLength = this.u32();
    const start = this.#take(byteLength);
    return Uint8Array.from(this.#bytes.subarray(start, start + byteLength));
  }

  #take(byteLength: number): number {
    const start = this.#at;
    if (byteLength > this.remainingBytes) {
      throw brokenObjectError(`at byte ${start} ${byteLength} bytes should follow`);
    }
    this.#at += byteLength;
    return start;
  }
}

export function brokenObjectError(found: string): DataError {
  return new DataError({
    asked: 'An object from another rank',
    found: `its bytes are not an object (${found})`,
    todo: 'Make every rank call the same operations in the same order',
  });
}
