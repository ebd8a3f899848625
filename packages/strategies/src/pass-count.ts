/** Programs with other numbers have plans of their own, and code that updates by itself never begins anew. */
const mostPasses = 16;

/**
 * Backward passes since the last update, from 1 to `mostPasses`. Ranks compare the number with each message of
 * gradients: where one has more passes in a step than another, theirs would be averaged with those of a later
 * step.
 */
export class PassCount {
  #passes = 0;

  /** The number of the pass that is under way; 0 before the first one. */
  get current(): number {
    return this.#passes;
  }

  /** A pass begins. */
  next(): void {
    this.#passes = Math.min(this.#passes + 1, mostPasses);
  }

  /** An update was made: passes are counted from 1 again. */
  reset(): void {
    this.#passes = 0;
  }
}
