import { nextTurn } from '@shardwise/core/extend';
import type { StopSource } from './rank-host.ts';

/** The stop of a rank that waits for no other rank. Each rank ends when it hears of the request. */
export class OwnStop implements StopSource {
  #requested = false;

  get requested(): boolean {
    return this.#requested;
  }

  request(): void {
    this.#requested = true;
  }

  async stopsAfter(): Promise<boolean> {
    // If all calls settled at once, a loop of them would never let the event loop receive the request.
    await nextTurn();
    return this.#requested;
  }
}
