import { checkOptions, type CallOptions } from '@shardwise/core/spec';
import { callRules } from '../call/call-options.ts';
import { DEFAULT_TIMEOUT_MS, storeAbortedError, storeTimeoutError } from './store-errors.ts';

const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Calls `end` with an error when the time of a waiting call is over, or its signal is given. Returns a function
 * that stops this. Throws ConfigError for options that do not fit.
 */
export function startDeadline(
  keys: readonly string[],
  options: CallOptions,
  end: (error: Error) => void,
): () => void {
  checkOptions('a call of a store', options, callRules);
  const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options;
  const timer = setTimeout(
    () => end(storeTimeoutError(keys, timeoutMs)),
    Math.min(timeoutMs, MAX_TIMER_MS),
  );
  const abort = (): void => end(storeAbortedError(keys, signal?.reason));
  signal?.addEventListener('abort', abort, { once: true });
  if (signal?.aborted === true) queueMicrotask(abort);
  return () => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  };
}
