import { BackendError } from '@shardwise/core/spec';
import type { DeviceBuffer } from '@shardwise/core/spec';

/** A part of an allocation on the JS heap. */
export class HostBuffer implements DeviceBuffer {
  readonly byteOffset: number;
  readonly byteLength: number;
  readonly #allocation: { bytes: Uint8Array | undefined };
  readonly #isWhole: boolean;

  private constructor(
    allocation: { bytes: Uint8Array | undefined },
    byteOffset: number,
    byteLength: number,
    isWhole: boolean,
  ) {
    this.#allocation = allocation;
    this.byteOffset = byteOffset;
    this.byteLength = byteLength;
    this.#isWhole = isWhole;
  }

  static allocate(byteLength: number): HostBuffer {
    return new HostBuffer({ bytes: new Uint8Array(byteLength) }, 0, byteLength, true);
  }

  /** Returns the interpreter's own buffer. Throws BackendError for a buffer of another backend. */
  static from(buffer: DeviceBuffer): HostBuffer {
    if (buffer instanceof HostBuffer) return buffer;
    throw new BackendError({
      asked: 'a buffer of the interpreter',
      found: 'a buffer of another backend',
      todo: 'Read it there and write it here',
    });
  }

  subBuffer(byteOffset: number, byteLength: number): HostBuffer {
    if (byteOffset < 0 || byteLength < 0 || byteOffset + byteLength > this.byteLength) {
      throw new BackendError(
        {
          asked: `bytes ${byteOffset} to ${byteOffset + byteLength}`,
          found: `a buffer of ${this.byteLength} bytes`,
          todo: 'Stay inside the buffer',
        },
        { byteOffset, byteLength, found: this.byteLength },
      );
    }
    return new HostBuffer(this.#allocation, this.byteOffset + byteOffset, byteLength, false);
  }

  bytes(): Uint8Array {
    const { bytes } = this.#allocation;
    if (bytes) return bytes.subarray(this.byteOffset, this.byteOffset + this.byteLength);
    throw new BackendError({
      asked: `the ${this.byteLength} bytes of a buffer`,
      found: 'the buffer has been freed',
      todo: 'Free a buffer after its last use',
    });
  }

  free(): void {
    if (!this.#isWhole) {
      throw new BackendError({
        asked: 'to free a sub-buffer',
        found: 'its bytes belong to its parent',
        todo: 'Free the parent',
      });
    }
    this.bytes();
    this.#allocation.bytes = undefined;
  }

  overlaps(other: HostBuffer): boolean {
    return (
      this.#allocation === other.#allocation &&
      this.byteOffset < other.byteOffset + other.byteLength &&
      other.byteOffset < this.byteOffset + this.byteLength
    );
  }
}
