import type { CallOptions } from './process-group.ts';

/**
 * Where the members of a job find each other: small values under names, which one of them keeps. Keys have at
 * most 1 KiB and values at most 1 MiB. Calls that wait take a timeout, and reject with a CollectiveTimeoutError
 * that names the keys.
 */
export interface Store {
  set(key: string, value: Uint8Array): Promise<void>;
  /** Waits until the key is set. */
  get(key: string, options?: CallOptions): Promise<Uint8Array>;
  /** Adds to a counter that starts at 0, and returns the sum, so each caller gets another number. */
  add(key: string, amount: number): Promise<number>;
  /** Sets `desired` if the value is `expected` (undefined: not set). Returns the value after that. */
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
