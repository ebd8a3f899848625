import { nextTurn, type ProcessGroup } from '@shardwise/core/extend';
import type { StopSource } from './rank-host.ts';

/**
 * The stop of ranks that share no memory with who asks for it: each may hear of it at another step,
 * so every question is one all-reduce of a byte.
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
    // A loop of calls that settle at once would never let the request in.
    await nextTurn();
    const bytes = Uint8Array.of(this.#requested ? 1 : 0);
    await this.#group.allReduce({ bytes, dtype: 'u8' }, 'max');
    return bytes[0] === 1;
  }
}
