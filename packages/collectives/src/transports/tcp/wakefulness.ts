import { onNextTurn } from '@shardwise/core/base';

/**
 * How long the event loop keeps turning, in milliseconds. This is longer than an exchange takes with a rank that
 * sleeps. Otherwise ranks would keep each other asleep.
 */
const AWAKE_MS = 0.1;
const MAX_SKIPPED = 63;

/**
 * Keeps the event loop turning for a moment while a message is awaited, because waking a thread that sleeps takes
 * longer than a short message does. If this does not help, because the peer is late or needs this core, it is done for
 * fewer and fewer of the waits.
 */
export class Wakefulness {
  readonly #onTurn = (): void => this.#turn();
  #isTurning = false;
  #isAwaited = false;
  #until = 0;
  /**
   * How many waits to sleep through after a wait in which turning did not help. `#toSkip` counts the ones that are
   * left.
   */
  #penalty = 0;
  #toSkip = 0;

  /** Called when a message is awaited that has not come. */
  wait(): void {
    if (this.#isTurning) this.#extend();
    else if (this.#toSkip > 0) this.#toSkip -= 1;
    else {
      this.#isTurning = true;
      this.#extend();
      onNextTurn(this.#onTurn);
    }
    this.#isAwaited = true;
  }

  /** Called when a message has come, or a part of one. */
  arrive(): void {
    this.#isAwaited = false;
    if (!this.#isTurning) return;
    this.#extend();
    this.#penalty >>= 1;
  }

  #extend(): void {
    this.#until = performance.now() + AWAKE_MS;
  }

  #turn(): void {
    if (performance.now() < this.#until) {
      onNextTurn(this.#onTurn);
      return;
    }
    this.#isTurning = false;
    if (!this.#isAwaited) return;
    this.#penalty = Math.min(2 * this.#penalty + 1, MAX_SKIPPED);
    this.#toSkip = this.#penalty;
  }
}
