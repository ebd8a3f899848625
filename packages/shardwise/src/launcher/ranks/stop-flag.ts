/** Whether the user has asked for an end. */
export interface StopSource {
  readonly requested: boolean;
  /** Whether to stop after update `step`. The answer is the same on every rank. */
  stopsAfter(step: number): boolean | Promise<boolean>;
}

/**
 * Lets the launcher stop all ranks after the same step. One 32-bit word of shared memory contains the first step that
 * no rank has asked about yet, times two, plus one if a stop has been requested. A rank that asks about a new step
 * raises the word by compare-and-exchange. After the request the word stays as it is, and the answer is yes from its
 * step on. So no rank is told to go on after a step at which another rank stops, whatever the timing of the threads.
 */
export class StopFlag implements StopSource {
  readonly #word: Int32Array<SharedArrayBuffer>;

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)) {
    this.#word = new Int32Array(memory, 0, 1);
  }

  get memory(): SharedArrayBuffer {
    return this.#word.buffer;
  }

  request(): void {
    Atomics.or(this.#word, 0, 1);
  }

  get requested(): boolean {
    return (Atomics.load(this.#word, 0) & 1) === 1;
  }

  /** Whether to stop after update `step`. The answer is the same on every rank. Steps ascend and are below 2^30. */
  stopsAfter(step: number): boolean {
    for (;;) {
      const word = Atomics.load(this.#word, 0);
      const next = word >>> 1;
      if ((word & 1) === 1) return step >= next;
      if (step < next) return false;
      if (Atomics.compareExchange(this.#word, 0, word, (step + 1) << 1) === word) return false;
    }
  }
}
