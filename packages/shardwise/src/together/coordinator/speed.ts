/** The least time between two measurements. */
const MIN_INTERVAL_MS = 1000;

/** Follows how many samples a member trains on in a second, by what it reports. */
export class Speed {
  #samples = 0;
  #measured = 0;
  #measuredMs: number;
  #perSecond = 0;

  constructor(nowMs: number) {
    this.#measuredMs = nowMs;
  }

  get samples(): number {
    return this.#samples;
  }

  get perSecond(): number {
    return this.#perSecond;
  }

  /** `samples` are all since the member came. A smaller number than before changes nothing. */
  report(samples: number, nowMs: number): void {
    this.#samples = Math.max(this.#samples, samples);
    const elapsedMs = nowMs - this.#measuredMs;
    if (elapsedMs < MIN_INTERVAL_MS) return;
    this.#perSecond = ((this.#samples - this.#measured) * 1000) / elapsedMs;
    this.#measured = this.#samples;
    this.#measuredMs = nowMs;
  }
}
