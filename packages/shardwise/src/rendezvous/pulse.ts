import type { Store } from '@shardwise/core';

const keyOf = (id: string): string => `pulse/${id}`;

/**
 * Signs of life: each host adds to a counter of its own, and whoever looks notes by its own clock
 * when a counter changed. So clocks of different hosts are never compared.
 */
export class Pulse {
  readonly #store: Store;
  readonly #seen = new Map<string, { readonly count: number; readonly atMs: number }>();

  constructor(store: Store) {
    this.#store = store;
  }

  async beat(id: string): Promise<void> {
    await this.#store.add(keyOf(id), 1);
  }

  /** How long the counter of a host has stood still while somebody looked. */
  async silentMs(id: string): Promise<number> {
    const count = await this.#store.add(keyOf(id), 0);
    const now = performance.now();
    const before = this.#seen.get(id);
    if (before?.count === count) return now - before.atMs;
    this.#seen.set(id, { count, atMs: now });
    return 0;
  }
}
