import type { CallOptions } from './process-group.ts';

/**
 * The members of a job find each other here. It has small values under keys, and one of the members keeps them. Keys
 * have at most 1 KiB and values at most 1 MiB. Calls that wait take a timeout, and reject with a CollectiveTimeoutError
 * that names the keys.
 */
export interface Store {
  set(key: string, value: Uint8Array): Promise<void>;
  /** Waits until the key is set. */
  get(key: string, options?: CallOptions): Promise<Uint8Array>;
  /** Adds to a counter that starts at 0, and returns the sum, so each caller gets a different number. */
  add(key: string, amount: number): Promise<number>;
  /** Sets `desired` if the value is `expected` (undefined: not set). Returns the value that the key has then. */
  compareSet(
    key: string,
    expected: Uint8Array | undefined,
    desired: Uint8Array,
  ): Promise<Uint8Array>;
  /** Waits until all keys are set. */
  wait(keys: readonly string[], options?: CallOptions): Promise<void>;
  /** Deletes a key. Returns whether it was set. */
  delete(key: string): Promise<boolean>;
  close(): void;
}
