/**
 * The limit of the count. Programs with different numbers have separate plans, and code that makes its own updates
 * never resets the count.
 */
const MAX_PASSES = 16;

/**
 * Counts the backward passes since the last update, from 1 to `mostPasses`. Ranks compare the number with each message
 * of gradients. Otherwise, if one rank had more passes in a step than another, its gradients would be averaged with
 * those of a later step.
 */
export class PassCount {
  #passes = 0;

  /** The number of the present pass. 0 before the first one. */
  get current(): number {
    return this.#passes;
  }

  /** Call this when a pass begins. */
  next(): void {
    this.#passes = Math.min(this.#passes + 1, MAX_PASSES);
  }

  /** Call this after an update. Passes are then counted from 1 again. */
  reset(): void {
    this.#passes = 0;
  }
}
