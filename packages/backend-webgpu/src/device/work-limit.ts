/** What the slowest devices do in a millisecond, such as processors that pretend to be one. */
const firstPerMs = 1e6;
/** Submissions of less than this part of the limit are not measured: their time is that of being handed over. */
const leastPart = 1 / 64;

/**
 * How much work one submission may have, so that it takes a stated time at the speed that the device has shown. Work is counted in
 * terms that are added and words that are moved (`workOf`).
 */
export class WorkLimit {
  readonly #mostMs: number;
  #perMs = firstPerMs;
  #work: number;

  constructor(mostMs: number) {
    this.#mostMs = mostMs;
    this.#work = firstPerMs * mostMs;
  }

  /** It is changed in steps of two, so that programs are not divided anew after each measurement. */
  get work(): number {
    return this.#work;
  }

  /** A submission took so long. One measurement alone changes little: the device, or the host, may have been busy with something else. */
  note(work: number, durationMs: number): void {
    if (work < this.#work * leastPart) return;
    const ratio = work / Math.max(durationMs, 0.01) / this.#perMs;
    this.#perMs *= Math.min(4, Math.max(1 / 2, ratio));
    const next = this.#perMs * this.#mostMs;
    if (next >= 2 * this.#work || next <= this.#work / 2) this.#work = next;
  }
}
