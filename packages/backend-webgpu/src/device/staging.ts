import { bufferUsage } from './gpu-constants.ts';

/** Memory by which values are read is kept up to this size, for so many reads of a size. */
const mostBytes = 1 << 24;
const leastBytes = 256;
const mostKept = 4;

/** Memory by which the host reads. A mapped buffer is not the device's, so reads that are under way have one each. */
export class Staging {
  readonly #device: GPUDevice;
  readonly #kept = new Map<number, GPUBuffer[]>();

  constructor(device: GPUDevice) {
    this.#device = device;
  }

  take(byteLength: number): GPUBuffer {
    const size = Math.max(leastBytes, 2 ** Math.ceil(Math.log2(byteLength)));
    return this.#kept.get(size)?.pop() ?? this.#create(size > mostBytes ? byteLength : size);
  }

  /** Gives memory back that is not mapped. */
  keep(staging: GPUBuffer): void {
    const ofSize = this.#kept.get(staging.size) ?? [];
    if (staging.size > mostBytes || ofSize.length >= mostKept) {
      staging.destroy();
      return;
    }
    ofSize.push(staging);
    this.#kept.set(staging.size, ofSize);
  }

  #create(size: number): GPUBuffer {
    const usage = bufferUsage.mapRead | bufferUsage.copyDestination;
    return this.#device.createBuffer({ size, usage });
  }
}
