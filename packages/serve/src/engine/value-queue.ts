/** Values that one side adds and the other one takes, in order. */
export class ValueQueue<T> {
  readonly #values: T[] = [];
  #failure: { readonly error: unknown } | null = null;
  #isOver = false;
  #wake: (() => void) | null = null;

  push(value: T): void {
    this.#values.push(value);
    this.#wake?.();
  }

  /** Says that no more values come. */
  end(): void {
    this.#isOver = true;
    this.#wake?.();
  }

  /** Says that no more values come, and why. Without effect after the end. */
  fail(error: unknown): void {
    if (!this.#isOver) this.#failure = { error };
    this.end();
  }

  /** Yields the values that there are and those that come. Throws the error of `fail` behind the last one. */
  async *take(): AsyncGenerator<T, void, void> {
    for (;;) {
      while (this.#values.length > 0) {
        const [value] = this.#values.splice(0, 1);
        if (value !== undefined) yield value;
      }
      if (this.#failure !== null) throw this.#failure.error;
      if (this.#isOver) return;
      await new Promise<void>((resolve) => (this.#wake = resolve));
      this.#wake = null;
    }
  }
}
