import { BackendError, type DeviceBuffer } from '@shardwise/core/spec';

/** What a buffer and its sub-buffers share. */
export interface Allocation {
  readonly byteOffset: number;
  readonly byteLength: number;
  freed: boolean;
}

/** A range of the arena's memory. */
export class ArenaBuffer implements DeviceBuffer {
  readonly allocation: Allocation;
  /** Bytes from the start of the WebAssembly.Memory. */
  readonly byteOffset: number;
  readonly byteLength: number;

  constructor(allocation: Allocation, byteOffset: number, byteLength: number) {
    this.allocation = allocation;
    this.byteOffset = byteOffset;
    this.byteLength = byteLength;
  }

  subBuffer(byteOffset: number, byteLength: number): ArenaBuffer {
    const inside =
      Number.isSafeInteger(byteOffset) &&
      Number.isSafeInteger(byteLength) &&
      byteOffset >= 0 &&
      byteLength >= 0 &&
      byteOffset + byteLength <= this.byteLength;
    if (!inside) {
      throw new BackendError(
        {
          asked: `bytes ${byteOffset} to ${byteOffset + byteLength} of a buffer`,
          found: `the buffer has ${this.byteLength} bytes`,
          todo: 'Stay inside the buffer',
        },
        { byteOffset, byteLength, bufferBytes: this.byteLength },
      );
    }
    return new ArenaBuffer(this.allocation, this.byteOffset + byteOffset, byteLength);
  }
}
