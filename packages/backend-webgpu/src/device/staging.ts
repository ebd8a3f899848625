import { bufferUsage } from './gpu-constants.ts';

const MIN_BYTES = 256;
/** Sizes are powers of two up to this size, and multiples of it above. */
const LARGE_BYTES = 1 << 24;
/** At most this many buffers of each size are kept, and at most `mostKeptBytes` bytes of all sizes. */
const MAX_KEPT = 4;
const MAX_KEPT_BYTES = 256 << 20;

/**
 * Memory through which the host reads. The device cannot use a mapped buffer, so each read under way has a buffer of
 * its own.
 */
export class Staging {
  readonly #device: GPUDevice;
  readonly #kept = new Map<number, GPUBuffer[]>();
  #keptBytes = 0;

  constructor(device: GPUDevice) {
    this.#device = device;
  }

  take(byteLength: number): GPUBuffer {
    const size = this.#sizeFor(byteLength);
    const kept = this.#kept.get(size)?.pop();
    if (kept === undefined) return this.#create(size);
    this.#keptBytes -= size;
    return kept;
  }

  /** Gives a buffer back, which must not be mapped. */
  keep(staging: GPUBuffer): void {
    const ofSize = this.#kept.get(staging.size) ?? [];
    if (ofSize.length >= MAX_KEPT || this.#keptBytes + staging.size > MAX_KEPT_BYTES) {
      staging.destroy();
      return;
    }
    this.#keptBytes += staging.size;
    ofSize.push(staging);
    this.#kept.set(staging.size, ofSize);
  }

  #sizeFor(byteLength: number): number {
    if (byteLength <= LARGE_BYTES)
      return Math.max(MIN_BYTES, 2 ** Math.ceil(Math.log2(byteLength)));
    const size = Math.ceil(byteLength / LARGE_BYTES) * LARGE_BYTES;
    return size <= this.#device.limits.maxBufferSize ? size : Math.ceil(byteLength / 4) * 4;
  }

  #create(size: number): GPUBuffer {
    const usage = bufferUsage.mapRead | bufferUsage.copyDestination;
    return this.#device.createBuffer({ size, usage });
  }
}
