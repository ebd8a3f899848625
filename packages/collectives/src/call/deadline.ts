import type { CallOptions } from '@shardwise/core/spec';

/** The longest timer. A longer one would fire at once, so a longer limit counts as no limit. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The errors with which a call ends early. */
export interface DeadlineErrors<Failure extends Error> {
  readonly late: (timeoutMs: number) => Failure;
  readonly aborted: (reason: unknown) => Failure;
}

/**
 * Calls `end` with an error when the time of a pending call is over, or its signal is given. Without `timeoutMs` there
 * is no time limit. Returns a function that stops this.
 */
export function startDeadline<Failure extends Error>(
  { timeoutMs = Infinity, signal }: CallOptions,
  errors: DeadlineErrors<Failure>,
  end: (error: Failure) => void,
): () => void {
  const timer =
    timeoutMs > MAX_TIMER_MS ? undefined : setTimeout(() => end(errors.late(timeoutMs)), timeoutMs);
  const abort = (): void => end(errors.aborted(signal?.reason));
  signal?.addEventListener('abort', abort, { once: true });
  if (signal?.aborted === true) abort();
  return () => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  };
}
