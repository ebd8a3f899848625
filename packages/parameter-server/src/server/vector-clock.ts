/** The number of steps of each worker. The least of them is the number of steps that all workers have made. */
export class VectorClock {
  readonly #clocks = new Map<number, number>();

  constructor(clocks: Iterable<readonly [worker: number, clock: number]> = []) {
    for (const [worker, clock] of clocks) this.#clocks.set(worker, clock);
  }

  /** The steps of the worker that has made the fewest; Infinity if there is no worker. */
  get minimum(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...this.#clocks.values());
  }

  get workers(): readonly number[] {
    return [...this.#clocks.keys()].toSorted((a, b) => a - b);
  }

  /** The steps of a worker; 0 for an unknown worker. */
  of(worker: number): number {
    return this.#clocks.get(worker) ?? 0;
  }

  has(worker: number): boolean {
    return this.#clocks.has(worker);
  }

  /** The number of steps that a worker is ahead of the one with the fewest. */
  lead(worker: number): number {
    return this.#clocks.size === 0 ? 0 : this.of(worker) - this.minimum;
  }

  set(worker: number, clock: number): void {
    this.#clocks.set(worker, clock);
  }

  /**
   * Counts a step. Returns whether the minimum has changed, which happens only if this worker alone had the
   * fewest steps.
   */
  tick(worker: number): boolean {
    const before = this.minimum;
    this.set(worker, this.of(worker) + 1);
    return this.minimum > before;
  }

  remove(worker: number): void {
    this.#clocks.delete(worker);
  }

  toJSON(): readonly (readonly [worker: number, clock: number])[] {
    return this.workers.map((worker) => [worker, this.of(worker)]);
  }
}
