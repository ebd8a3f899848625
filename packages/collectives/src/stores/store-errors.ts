import {
  CollectiveAbortedError,
  type CollectiveError,
  CollectiveTimeoutError,
  ConfigError,
  reasonText,
} from '@shardwise/core/spec';
import { MAX_KEYS } from './store-limits.ts';

export const DEFAULT_TIMEOUT_MS = 300_000;

export function storeTimeoutError(keys: readonly string[], timeoutMs: number): CollectiveError {
  const named = keys.length === 1 ? `key ${keys[0]}` : `keys ${keys.join(', ')}`;
  return new CollectiveTimeoutError(
    {
      asked: `Waiting for store ${named}`,
      found: `not set within ${timeoutMs} ms`,
      todo: 'Check that the rank that sets it runs, or raise timeoutMs',
    },
    { keys, timeoutMs },
  );
}

/** The error with which pending and later calls of a store reject when it has ended. */
export function storeClosedError(where: string, reason: unknown): CollectiveError {
  const text = reason === undefined ? 'it was closed' : reasonText(reason);
  return new CollectiveAbortedError(
    {
      asked: `A call of the store ${where}`,
      found: `the store has ended (${text})`,
      todo: 'Look for the first failure on the host that serves it',
    },
    { where, reason: text },
    reason instanceof Error ? { cause: reason } : undefined,
  );
}

export function storeAbortedError(keys: readonly string[], reason: unknown): CollectiveError {
  return new CollectiveAbortedError(
    {
      asked: `Waiting for store keys ${keys.join(', ')}`,
      found: `the signal ended it (${reasonText(reason)})`,
      todo: 'Look for what gave the signal',
    },
    { keys, reason: reasonText(reason) },
  );
}

export function storeFullError(key: string): ConfigError {
  return new ConfigError(
    {
      asked: `Setting store key ${key}`,
      found: `the store holds ${MAX_KEYS} keys already`,
      todo: 'Delete keys that nobody needs any more',
    },
    { key, maxKeys: MAX_KEYS },
  );
}

export function notACounterError(key: string, sum: number | undefined): ConfigError {
  return new ConfigError(
    {
      asked: `Adding to store key ${key}`,
      found: sum === undefined ? 'its value is not a number' : `the sum ${sum} is over 2^53`,
      todo: 'Use another key for the counter',
    },
    { key, sum },
  );
}
