import { bufferUsage } from './gpu-constants.ts';

/** The most passes whose times are not read yet. */
const MAX_PASSES = 128;
const BYTES_OF_PASS = 16;

/** Is called with the duration of a pass. */
type Listener = (durationMs: number) => void;

/** The times of passes on a device with `timestamp-query`. They are read together with the next value. */
export class PassTimes {
  readonly #queries: GPUQuerySet;
  readonly #resolved: GPUBuffer;
  #listeners: Listener[] = [];

  constructor(device: GPUDevice) {
    this.#queries = device.createQuerySet({ type: 'timestamp', count: 2 * MAX_PASSES });
    this.#resolved = device.createBuffer({
      size: MAX_PASSES * BYTES_OF_PASS,
      usage: bufferUsage.queryResolve | bufferUsage.copySource,
    });
  }

  get isFull(): boolean {
    return this.#listeners.length === MAX_PASSES;
  }

  /** The number of bytes that `encode` writes. */
  get byteLength(): number {
    return this.#listeners.length * BYTES_OF_PASS;
  }

  /** Where the next pass has to write its times. There must be room (`isFull`). */
  writesOf(listener: Listener): GPUComputePassTimestampWrites {
    const first = 2 * this.#listeners.length;
    this.#listeners.push(listener);
    return {
      querySet: this.#queries,
      beginningOfPassWriteIndex: first,
      endOfPassWriteIndex: first + 1,
    };
  }

  /**
   * Copies the times so far to `target`. Give the bytes that are there afterwards to the function that it returns,
   * which calls the listeners.
   */
  encode(
    encoder: GPUCommandEncoder,
    target: GPUBuffer,
    byteOffset: number,
  ): (bytes: ArrayBuffer) => void {
    const { byteLength } = this;
    const listeners = this.#listeners;
    this.#listeners = [];
    if (listeners.length === 0) return () => {};
    encoder.resolveQuerySet(this.#queries, 0, 2 * listeners.length, this.#resolved, 0);
    encoder.copyBufferToBuffer(this.#resolved, 0, target, byteOffset, byteLength);
    return (bytes) => {
      const nanoseconds = new BigUint64Array(bytes);
      for (const [pass, listener] of listeners.entries()) {
        const [begin = 0n, end = 0n] = nanoseconds.subarray(2 * pass, 2 * pass + 2);
        // The clock of a device may be set back.
        listener(end > begin ? Number(end - begin) / 1e6 : 0);
      }
    };
  }
}
