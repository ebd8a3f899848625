import type { Store } from '@shardwise/core/extend';

const keyOf = (id: string): string => `pulse/${id}`;

interface Seen {
  readonly count: number;
  readonly atMs: number;
  readonly silentMs: number;
}

/**
 * The greatest time that counts between two looks, in heartbeats. A host that was halted itself has missed the signs of
 * life of the others, which must not count as their silence.
 */
const BEATS_PER_LOOK = 2;

/**
 * The signs of life of hosts. Each host increments its own counter. Other hosts measure by their own clock how long a
 * counter has not changed. So clocks of different hosts are never compared.
 */
export class Pulse {
  readonly #store: Store;
  readonly #longestLookMs: number;
  readonly #seen = new Map<string, Seen>();

  constructor(store: Store, heartbeatMs: number) {
    this.#store = store;
    this.#longestLookMs = BEATS_PER_LOOK * heartbeatMs;
  }

  async beat(id: string): Promise<void> {
    await this.#store.add(keyOf(id), 1);
  }

  /** Leaves nothing in the store of a host that gives no more signs of life. If it gives one, it counts anew. */
  async forget(id: string): Promise<void> {
    this.#seen.delete(id);
    await this.#store.delete(keyOf(id));
  }

  /** Looks at the counter of a host. Returns for how long it has not changed while this host was looking. */
  async silentMs(id: string): Promise<number> {
    const count = await this.#store.add(keyOf(id), 0);
    const atMs = performance.now();
    const before = this.#seen.get(id);
    const silentMs =
      before?.count === count
        ? before.silentMs + Math.min(atMs - before.atMs, this.#longestLookMs)
        : 0;
    this.#seen.set(id, { count, atMs, silentMs });
    return silentMs;
  }

  /** Returns what the last look found. */
  lastSilentMs(id: string): number {
    return this.#seen.get(id)?.silentMs ?? 0;
  }
}
