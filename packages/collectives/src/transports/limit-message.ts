import { type CallOptions, type CollectiveError, reasonText } from '@shardwise/core/spec';
import { startDeadline } from '../call/deadline.ts';
import { messageAbortedError, messageTimeoutError, type MessageLabel } from './message-errors.ts';

/** Calls `giveUp` with an error when the time is over, or the signal is given, before the message is done. */
export async function limitMessage(
  done: Promise<void>,
  label: MessageLabel,
  options: CallOptions,
  giveUp: (error: CollectiveError) => void,
): Promise<void> {
  const errors = {
    late: (timeoutMs: number) => messageTimeoutError(label, timeoutMs),
    aborted: (reason: unknown) => messageAbortedError(label, reasonText(reason)),
  };
  const stop = startDeadline(options, errors, giveUp);
  try {
    await done;
  } finally {
    stop();
  }
}
