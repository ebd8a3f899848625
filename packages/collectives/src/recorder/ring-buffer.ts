/** The latest `capacity` values. */
export class RingBuffer<T> {
  readonly capacity: number;
  readonly #values: T[] = [];
  #next = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  /** Returns the value that had to go. */
  push(value: T): T | undefined {
    const replaced = this.#values[this.#next];
    this.#values[this.#next] = value;
    this.#next = (this.#next + 1) % this.capacity;
    return replaced;
  }

  /** Oldest first. */
  values(): readonly T[] {
    return [...this.#values.slice(this.#next), ...this.#values.slice(0, this.#next)];
  }
}
