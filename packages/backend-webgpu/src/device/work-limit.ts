/**
 * The work per millisecond of the slowest devices, such as processors that emulate one. The limit begins with this
 * number.
 */
const FIRST_PER_MS = 1e6;
/**
 * Submissions with less than this part of the limit are not measured, because their time is mostly that of handing them
 * over.
 */
const MIN_PART = 1 / 64;

/**
 * How much work one submission may have, so that it takes a stated time at the speed that the device has shown. Work is
 * counted in terms that are added plus words that are moved (`workOf`).
 */
export class WorkLimit {
  readonly #mostMs: number;
  #perMs = FIRST_PER_MS;
  #work: number;

  constructor(mostMs: number) {
    this.#mostMs = mostMs;
    this.#work = FIRST_PER_MS * mostMs;
  }

  /**
   * The most work of a submission. It only changes by a factor of two or more, so that programs are not divided again
   * after each measurement.
   */
  get work(): number {
    return this.#work;
  }

  /**
   * Notes that a submission took so long. One measurement changes the speed at most by the factors 1/2 and 4, because
   * the device or the host may have been busy with something else.
   */
  note(work: number, durationMs: number): void {
    if (work < this.#work * MIN_PART) return;
    const ratio = work / Math.max(durationMs, 0.01) / this.#perMs;
    this.#perMs *= Math.min(4, Math.max(1 / 2, ratio));
    const next = this.#perMs * this.#mostMs;
    if (next >= 2 * this.#work || next <= this.#work / 2) this.#work = next;
  }
}
