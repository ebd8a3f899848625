import { nextTurn } from '@shardwise/core/extend';
import type { StopSource } from './rank-host.ts';

/** The stop of a rank that waits for no other one: each ends when it hears of it. */
export class OwnStop implements StopSource {
  #requested = false;

  get requested(): boolean {
    return this.#requested;
  }

  request(): void {
    this.#requested = true;
  }

  async stopsAfter(): Promise<boolean> {
    // A loop of calls that settle at once would never let the request in.
    await nextTurn();
    return this.#requested;
  }
}
