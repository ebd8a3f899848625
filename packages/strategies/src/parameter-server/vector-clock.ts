/** How many steps each worker has made: plain numbers by worker, of which the least is what all have made. */
export class VectorClock {
  readonly #clocks = new Map<number, number>();

  constructor(clocks: Iterable<readonly [worker: number, clock: number]> = []) {
    for (const [worker, clock] of clocks) this.#clocks.set(worker, clock);
  }

  /** The steps of the worker that has made the fewest; Infinity where there is none. */
  get minimum(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...this.#clocks.values());
  }

  get workers(): readonly number[] {
    return [...this.#clocks.keys()].toSorted((a, b) => a - b);
  }

  /** 0 for a worker that is not in it. */
  of(worker: number): number {
    return this.#clocks.get(worker) ?? 0;
  }

  has(worker: number): boolean {
    return this.#clocks.has(worker);
  }

  /** How many steps a worker is ahead of the one with the fewest. */
  lead(worker: number): number {
    return this.#clocks.size === 0 ? 0 : this.of(worker) - this.minimum;
  }

  set(worker: number, clock: number): void {
    this.#clocks.set(worker, clock);
  }

  /** Counts a step. Returns whether the minimum has moved: only the one that had the fewest, alone, moves it. */
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
