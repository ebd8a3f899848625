import type { StopSource } from '../rank/rank-host.ts';

/**
 * How the launcher stops all ranks after the same step. One 32-bit word of shared memory holds the
 * first step that no rank has asked about yet, times two, plus one once a stop is requested. A rank
 * that asks about a new step raises it by compare-and-exchange; from the request on it stands still,
 * and the answer is yes from that step on. So no rank has been told to go on after a step at which
 * another one stops, whatever the threads' timing.
 */
export class StopWord implements StopSource {
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

  /** Whether to stop after update `step`; the same answer on every rank. Steps ascend, below 2^30. */
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
