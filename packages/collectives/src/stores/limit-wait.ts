import { checkOptions } from '@shardwise/core/base';
import type { CallOptions } from '@shardwise/core/spec';
import { callRules } from '../call/call-options.ts';
import { startDeadline } from '../call/deadline.ts';
import { DEFAULT_TIMEOUT_MS, storeAbortedError, storeTimeoutError } from './store-errors.ts';

/**
 * Calls `end` with an error when a call has waited for keys too long, or its signal is given. Returns a function that
 * stops this. Throws ConfigError for options that do not fit.
 */
export function limitWait(
  keys: readonly string[],
  options: CallOptions,
  end: (error: Error) => void,
): () => void {
  checkOptions('a call of a store', options, callRules);
  const errors = {
    late: (timeoutMs: number) => storeTimeoutError(keys, timeoutMs),
    aborted: (reason: unknown) => storeAbortedError(keys, reason),
  };
  return startDeadline({ timeoutMs: DEFAULT_TIMEOUT_MS, ...options }, errors, end);
}
