import { nextTurn, type ProcessGroup } from '@shardwise/core/extend';
import type { StopSource } from '../launcher/ranks/stop-flag.ts';

/**
 * The stop of ranks that share no memory with the launcher. Each rank may hear of the request at another step, so every
 * question is an all-reduce of one byte.
 */
export class AgreedStop implements StopSource {
  readonly #group: ProcessGroup;
  #requested = false;

  constructor(group: ProcessGroup) {
    this.#group = group;
  }

  get requested(): boolean {
    return this.#requested;
  }

  request(): void {
    this.#requested = true;
  }

  async stopsAfter(): Promise<boolean> {
    // If all calls settled at once, a loop of them would never let the event loop receive the request.
    await nextTurn();
    const bytes = Uint8Array.of(this.#requested ? 1 : 0);
    await this.#group.allReduce({ bytes, dtype: 'u8' }, 'max');
    return bytes[0] === 1;
  }
}

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
