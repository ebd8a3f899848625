/** Keeps the latest `capacity` values. */
export class RingBuffer<T> {
  readonly capacity: number;
  readonly #values: T[] = [];
  #next = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  /** Adds a value. Returns the value that it replaced, if there was one. */
  push(value: T): T | undefined {
    const replaced = this.#values[this.#next];
    this.#values[this.#next] = value;
    this.#next = (this.#next + 1) % this.capacity;
    return replaced;
  }

  /** The values, oldest first. */
  values(): readonly T[] {
    return [...this.#values.slice(this.#next), ...this.#values.slice(0, this.#next)];
  }
}
