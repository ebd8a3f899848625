import type { CallOptions, CollectiveError } from '@shardwise/core/spec';
import { reasonText } from '../call/failure.ts';
import { messageAbortedError, messageTimeoutError, type MessageLabel } from './message-errors.ts';

const MAX_TIMER_MS = 2 ** 31 - 1;

/** Calls `giveUp` with an error when the time is over, or the signal is given, before the message is done. */
export async function limitMessage(
  done: Promise<void>,
  label: MessageLabel,
  { timeoutMs = Infinity, signal }: CallOptions,
  giveUp: (error: CollectiveError) => void,
): Promise<void> {
  const abort = (): void => giveUp(messageAbortedError(label, reasonText(signal?.reason)));
  const timer =
    timeoutMs > MAX_TIMER_MS
      ? undefined
      : setTimeout(() => giveUp(messageTimeoutError(label, timeoutMs)), timeoutMs);
  signal?.addEventListener('abort', abort, { once: true });
  if (signal?.aborted === true) abort();
  try {
    await done;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  }
}
