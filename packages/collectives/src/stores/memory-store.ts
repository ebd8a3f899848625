import type { CallOptions, Store } from '@shardwise/core/spec';
import { limitWait } from './limit-wait.ts';
import { notACounterError, storeClosedError, storeFullError } from './store-errors.ts';
import { checkAmount, checkAwaited, checkKey, checkValue, MAX_KEYS } from './store-limits.ts';

interface Waiter {
  readonly missing: Set<string>;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/**
 * A store for the ranks of one process. A store server uses one, too. A counter is stored as decimal digits, so
 * `get` can read it.
 */
export class MemoryStore implements Store {
  readonly #values = new Map<string, Uint8Array>();
  readonly #waiters = new Map<string, Set<Waiter>>();
  #closed: Error | undefined;

  async set(key: string, value: Uint8Array): Promise<void> {
    this.#check(key, value);
    this.#put(key, value.slice());
  }

  async get(key: string, options?: CallOptions): Promise<Uint8Array> {
    this.#check(key);
    for (;;) {
      const value = this.#values.get(key);
      if (value !== undefined) return value.slice();
      await this.wait([key], options);
    }
  }

  async add(key: string, amount: number): Promise<number> {
    this.#check(key);
    checkAmount(key, amount);
    const before = this.#values.get(key);
    const digits = before === undefined ? '0' : new TextDecoder().decode(before);
    if (!/^-?\d{1,16}$/.test(digits)) throw notACounterError(key, undefined);
    const sum = Number(digits) + amount;
    if (!Number.isSafeInteger(sum)) throw notACounterError(key, sum);
    this.#put(key, new TextEncoder().encode(String(sum)));
    return sum;
  }

  async compareSet(
    key: string,
    expected: Uint8Array | undefined,
    desired: Uint8Array,
  ): Promise<Uint8Array> {
    this.#check(key, desired);
    const value = this.#values.get(key);
    const isExpected =
      value === undefined || expected === undefined
        ? value === expected
        : Buffer.compare(value, expected) === 0;
    if (isExpected) this.#put(key, desired.slice());
    // If a value was expected and the key is not set, there is no value to return.
    return (isExpected ? desired : (value ?? new Uint8Array(0))).slice();
  }

  async wait(keys: readonly string[], options: CallOptions = {}): Promise<void> {
    if (this.#closed !== undefined) throw this.#closed;
    checkAwaited(keys);
    const missing = new Set(keys.filter((key) => !this.#values.has(key)));
    if (missing.size === 0) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { missing, resolve, reject };
    for (const key of missing) {
      const waiters = this.#waiters.get(key) ?? new Set();
      this.#waiters.set(key, waiters.add(waiter));
    }
    const stop = limitWait([...missing], options, reject);
    try {
      await promise;
    } finally {
      stop();
      for (const key of missing) this.#forget(key, waiter);
    }
  }

  async delete(key: string): Promise<boolean> {
    this.#check(key);
    return this.#values.delete(key);
  }

  close(): void {
    this.#closed ??= storeClosedError('of this process', undefined);
    for (const waiters of this.#waiters.values()) {
      for (const { reject } of waiters) reject(this.#closed);
    }
  }

  #check(key: string, value?: Uint8Array): void {
    if (this.#closed !== undefined) throw this.#closed;
    checkKey(key);
    if (value !== undefined) checkValue(key, value);
  }

  #put(key: string, value: Uint8Array): void {
    if (!this.#values.has(key) && this.#values.size >= MAX_KEYS) throw storeFullError(key);
    this.#values.set(key, value);
    for (const waiter of this.#waiters.get(key) ?? []) {
      waiter.missing.delete(key);
      this.#forget(key, waiter);
      if (waiter.missing.size === 0) waiter.resolve();
    }
  }

  #forget(key: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(key);
    waiters?.delete(waiter);
    if (waiters?.size === 0) this.#waiters.delete(key);
  }
}
