import type { CallOptions, Store } from '@shardwise/core/spec';

/**
 * The keys of another store that begin with a prefix, under their names without it. Several users of one store can so
 * choose their keys without knowing of each other. Errors name the whole keys.
 */
export class PrefixStore implements Store {
  readonly #prefix: string;
  readonly #store: Store;

  constructor(prefix: string, store: Store) {
    this.#prefix = prefix;
    this.#store = store;
  }

  set(key: string, value: Uint8Array): Promise<void> {
    return this.#store.set(this.#whole(key), value);
  }

  get(key: string, options?: CallOptions): Promise<Uint8Array> {
    return this.#store.get(this.#whole(key), options);
  }

  add(key: string, amount: number): Promise<number> {
    return this.#store.add(this.#whole(key), amount);
  }

  compareSet(
    key: string,
    expected: Uint8Array | undefined,
    desired: Uint8Array,
  ): Promise<Uint8Array> {
    return this.#store.compareSet(this.#whole(key), expected, desired);
  }

  wait(keys: readonly string[], options?: CallOptions): Promise<void> {
    return this.#store.wait(
      keys.map((key) => this.#whole(key)),
      options,
    );
  }

  delete(key: string): Promise<boolean> {
    return this.#store.delete(this.#whole(key));
  }

  /** Closes the other store. */
  close(): void {
    this.#store.close();
  }

  #whole(key: string): string {
    return `${this.#prefix}/${key}`;
  }
}
