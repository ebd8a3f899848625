import { CollectiveAbortedError, type CollectiveError } from '@shardwise/core/spec';
import type { AbortCause } from '../call/failure.ts';
import { abortedByError } from '../transports/tcp/peer-errors.ts';

/** What a transport fails with that a peer, or whoever started the ranks, has ended. */
export function endedByError({ rank, reason }: AbortCause): CollectiveError {
  if (rank !== undefined) return abortedByError({ rank, reason });
  return new CollectiveAbortedError(
    {
      asked: 'A message',
      found: `whoever started the ranks closed the transport (${reason})`,
      todo: 'Look for the first failure there',
    },
    { abortedBy: undefined, reason },
  );
}
