import { BackendError, type DeviceBuffer, OutOfMemoryError } from '@shardwise/core/spec';

/** Memory on the JavaScript heap. */
export class Memory implements DeviceBuffer {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  /** Throws OutOfMemoryError. */
  static allocate(byteLength: number): Memory {
    try {
      return new Memory(new Uint8Array(byteLength));
    } catch (cause) {
      const message = {
        asked: `${byteLength} bytes`,
        found: 'no room for them on the heap',
        todo: 'Free buffers, or use a smaller model',
      };
      throw new OutOfMemoryError(message, { byteLength }, { cause });
    }
  }

  /** Casts a buffer. A backend only gets buffers that it has allocated. */
  static of(buffer: DeviceBuffer): Memory {
    if (buffer instanceof Memory) return buffer;
    throw new BackendError({
      asked: 'a buffer',
      found: 'that of another backend',
      todo: 'Use buffers that alloc has given',
    });
  }

  get byteLength(): number {
    return this.bytes.byteLength;
  }

  subBuffer(byteOffset: number, byteLength: number): Memory {
    const end = byteOffset + byteLength;
    if (byteOffset >= 0 && byteLength >= 0 && end <= this.byteLength) {
      return new Memory(this.bytes.subarray(byteOffset, end));
    }
    throw new BackendError(
      {
        asked: `bytes ${byteOffset} to ${end}`,
        found: `a buffer of ${this.byteLength} bytes`,
        todo: 'Take a part that lies inside',
      },
      { byteOffset, byteLength },
    );
  }
}
