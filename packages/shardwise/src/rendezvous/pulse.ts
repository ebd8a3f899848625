import type { Store } from '@shardwise/core/extend';

const keyOf = (id: string): string => `pulse/${id}`;

interface Seen {
  readonly count: number;
  readonly atMs: number;
  readonly silentMs: number;
}

/**
 * Between two looks the time of so many beats counts at most: a host that was halted itself has seen none of
 * the others' signs.
 */
const BEATS_PER_LOOK = 2;

/**
 * Signs of life: each host adds to a counter of its own, and whoever looks notes by its own clock
 * how long a counter has not changed. So clocks of different hosts are never compared.
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

  /** Looks; how long the counter of a host has stood still while somebody looked. */
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

  /** What the last look found. */
  lastSilentMs(id: string): number {
    return this.#seen.get(id)?.silentMs ?? 0;
  }
}
