import { CollectiveAbortedError, type CollectiveError } from '@shardwise/core/spec';
import type { AbortCause } from '../call/aborted-error.ts';

/** The error of a transport when a rank is gone, or has ended by its own fault. `cause.rank` is that rank. */
export function peerLostError(cause: {
  readonly rank: number;
  readonly reason: string;
}): CollectiveError {
  return new CollectiveAbortedError(
    {
      asked: 'A message',
      found: `rank ${cause.rank} of the world is lost (${cause.reason})`,
      todo: `Look for the first failure on rank ${cause.rank}`,
    },
    { abortedBy: cause.rank, reason: cause.reason },
  );
}

/** The error of a transport that a peer, or whoever started the ranks, has ended with a reason. */
export function abortedByError({ rank, reason }: AbortCause): CollectiveError {
  const by = rank === undefined ? 'whoever started the ranks' : `rank ${rank} of the world`;
  return new CollectiveAbortedError(
    {
      asked: 'A message',
      found: `${by} closed the transport (${reason})`,
      todo: `Look for the first failure ${rank === undefined ? 'there' : `on rank ${rank}`}`,
    },
    { abortedBy: rank, reason },
  );
}
