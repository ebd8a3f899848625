import { BackendError, type DeviceBuffer } from '@shardwise/core/spec';
import type { Allocation } from './allocation.ts';

/**
 * A buffer of a device. WebGPU copies whole words, so the memory after the last byte, up to a whole word, also belongs
 * to the buffer.
 */
export class GpuBuffer implements DeviceBuffer {
  readonly allocation: Allocation;
  readonly byteOffset: number;
  readonly byteLength: number;
  readonly isWhole: boolean;

  constructor(allocation: Allocation, byteOffset: number, byteLength: number, isWhole: boolean) {
    this.allocation = allocation;
    this.byteOffset = byteOffset;
    this.byteLength = byteLength;
    this.isWhole = isWhole;
  }

  subBuffer(byteOffset: number, byteLength: number): GpuBuffer {
    const end = byteOffset + byteLength;
    if (byteOffset < 0 || byteLength < 0 || end > this.byteLength) {
      throw new BackendError(
        {
          asked: `bytes ${byteOffset} to ${end} of a buffer`,
          found: `it has ${this.byteLength} bytes`,
          todo: 'Stay inside the buffer',
        },
        { byteOffset, byteLength, bufferBytes: this.byteLength },
      );
    }
    return new GpuBuffer(this.allocation, this.byteOffset + byteOffset, byteLength, false);
  }

  /** The least and the greatest of the words, if they are known. */
  knownBounds(): { readonly least: number; readonly greatest: number } | undefined {
    return this.allocation.bounds(this.byteOffset, this.byteLength);
  }

  /**
   * Notes that something other than the host writes to the buffer. `bounds` are those of the new words, or undefined if
   * they are unknown.
   */
  noteBounds(bounds: { readonly least: number; readonly greatest: number } | undefined): void {
    this.allocation.forget(this.byteOffset, this.byteLength);
    if (bounds !== undefined) this.allocation.noteBounds(this.byteOffset, this.byteLength, bounds);
  }

  /** The GPUBuffer. Throws BackendError after it has been freed. */
  get memory(): GPUBuffer {
    const { buffer } = this.allocation;
    if (buffer !== undefined) return buffer;
    throw new BackendError({
      asked: `to use a buffer of ${this.byteLength} bytes`,
      found: 'it has been freed',
      todo: 'Free a buffer after its last use',
    });
  }
}
