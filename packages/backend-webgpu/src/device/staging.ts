import { bufferUsage } from './gpu-constants.ts';

const leastBytes = 256;
/** Sizes are powers of two up to this one, and then its multiples. */
const largeBytes = 1 << 24;
/** So many are kept of a size, and so many bytes of all. */
const mostKept = 4;
const mostKeptBytes = 256 << 20;

/** Memory by which the host reads. A mapped buffer is not the device's, so reads that are under way have one each. */
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

  /** Gives memory back that is not mapped. */
  keep(staging: GPUBuffer): void {
    const ofSize = this.#kept.get(staging.size) ?? [];
    if (ofSize.length >= mostKept || this.#keptBytes + staging.size > mostKeptBytes) {
      staging.destroy();
      return;
    }
    this.#keptBytes += staging.size;
    ofSize.push(staging);
    this.#kept.set(staging.size, ofSize);
  }

  #sizeFor(byteLength: number): number {
    if (byteLength <= largeBytes)
      return Math.max(leastBytes, 2 ** Math.ceil(Math.log2(byteLength)));
    const size = Math.ceil(byteLength / largeBytes) * largeBytes;
    return size <= this.#device.limits.maxBufferSize ? size : Math.ceil(byteLength / 4) * 4;
  }

  #create(size: number): GPUBuffer {
    const usage = bufferUsage.mapRead | bufferUsage.copyDestination;
    return this.#device.createBuffer({ size, usage });
  }
}
