import {
  BackendError,
  type DeviceBuffer,
  type MemoryUsage,
  OutOfMemoryError,
} from '@shardwise/core/spec';
import { Allocation } from './allocation.ts';
import { FreedBuffers } from './freed-buffers.ts';
import { bufferUsage } from './gpu-constants.ts';
import { GpuBuffer } from './gpu-buffer.ts';
import { SharedScratch } from './shared-scratch.ts';

const MIN_BYTES = 16;

export interface MemoryLimits {
  /** The most bytes of all buffers together. */
  readonly memoryBytes: number;
  /** The most bytes of one buffer, if that is less than the device's own limit. */
  readonly bufferBytes?: number | undefined;
}

/** Allocates buffers of a device, and counts their bytes, since a device does not tell what is free. */
export class GpuMemory {
  readonly #device: GPUDevice;
  readonly #capacityBytes: number;
  /** The most bytes of one buffer. */
  readonly largestBytes: number;
  /** Where programs have their temporary values. */
  readonly scratch: SharedScratch = new SharedScratch(this);
  readonly #freed = new FreedBuffers();
  readonly #onFailure: (error: Error) => void;
  readonly #destroy: (buffer: GPUBuffer) => void;
  #bytesInUse = 0;
  #peakBytes = 0;

  /**
   * `onFailure` hears that the device had no memory, which a device reports late. `destroy` has to destroy a buffer
   * once the calls that use it have taken effect.
   */
  constructor(
    device: GPUDevice,
    { memoryBytes, bufferBytes = Infinity }: MemoryLimits,
    onFailure: (error: Error) => void,
    destroy: (buffer: GPUBuffer) => void,
  ) {
    this.#device = device;
    this.#capacityBytes = memoryBytes;
    this.largestBytes = Math.min(bufferBytes, device.limits.maxBufferSize);
    this.#onFailure = onFailure;
    this.#destroy = destroy;
  }

  usage(): MemoryUsage {
    return { bytesInUse: this.#bytesInUse, peakBytes: this.#peakBytes };
  }

  /** Throws OutOfMemoryError if it is known at once that there is not enough memory. */
  alloc(byteLength: number): GpuBuffer {
    const sizeBytes = Math.max(MIN_BYTES, Math.ceil(byteLength / 4) * 4);
    if (sizeBytes > this.largestBytes) throw tooLarge(byteLength, this.largestBytes);
    if (this.#bytesInUse + sizeBytes > this.#capacityBytes) {
      throw new OutOfMemoryError(
        {
          asked: `a buffer of ${byteLength} bytes`,
          found: `${this.#bytesInUse} of ${this.#capacityBytes} bytes are in use`,
          todo: 'Free buffers, use a smaller batch, or divide the model over more ranks',
        },
        { byteLength, bytesInUse: this.#bytesInUse, capacityBytes: this.#capacityBytes },
      );
    }
    const buffer = this.#freed.take(sizeBytes) ?? this.#create(sizeBytes);
    this.#bytesInUse += sizeBytes;
    this.#peakBytes = Math.max(this.#peakBytes, this.#bytesInUse);
    return new GpuBuffer(new Allocation(buffer), 0, byteLength, true);
  }

  /**
   * Frees a buffer. Commands that were submitted before still use its memory, and later commands may get the same
   * memory.
   */
  free(buffer: GpuBuffer): void {
    if (!buffer.isWhole) {
      throw new BackendError({
        asked: 'to free a sub-buffer',
        found: 'its bytes belong to its parent',
        todo: 'Free the parent',
      });
    }
    const { memory } = buffer;
    buffer.allocation.buffer = undefined;
    this.#bytesInUse -= memory.size;
    if (!this.#freed.keep(memory)) this.#destroy(memory);
  }

  /** The GpuBuffer behind the interface. Throws BackendError for a buffer of another kind of device. */
  own(buffer: DeviceBuffer): GpuBuffer {
    if (buffer instanceof GpuBuffer) return buffer;
    throw new BackendError({
      asked: 'a buffer of this device',
      found: 'a buffer of another backend',
      todo: 'Read it there and write it here',
    });
  }

  #create(sizeBytes: number): GPUBuffer {
    this.#device.pushErrorScope('out-of-memory');
    const usage = bufferUsage.storage | bufferUsage.copySource | bufferUsage.copyDestination;
    const buffer = this.#device.createBuffer({ size: sizeBytes, usage });
    void this.#device
      .popErrorScope()
      .then(
        (error) =>
          error !== null && this.#onFailure(outOfMemory(sizeBytes, this.#bytesInUse, error)),
        this.#onFailure,
      );
    return buffer;
  }
}

function tooLarge(byteLength: number, largestBytes: number): OutOfMemoryError {
  return new OutOfMemoryError(
    {
      asked: `a buffer of ${byteLength} bytes`,
      found: `one buffer of this device may have ${largestBytes}`,
      todo: 'Use a smaller batch or smaller buckets, or divide the model over more ranks',
    },
    { byteLength, largestBytes },
  );
}

function outOfMemory(byteLength: number, bytesInUse: number, error: GPUError): OutOfMemoryError {
  return new OutOfMemoryError(
    {
      asked: `a buffer of ${byteLength} bytes`,
      found: `the device says ${error.message}; ${bytesInUse} bytes are in use`,
      todo: 'Use a smaller batch, or divide the model over more ranks',
    },
    { byteLength, bytesInUse },
  );
}
