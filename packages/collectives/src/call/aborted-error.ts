import {
  type AbortCause,
  BETWEEN_RANKS,
  CollectiveAbortedError,
  type CollectiveError,
  isBetweenRanks,
} from '@shardwise/core/spec';

/** How errors name a call. */
export interface CallLabel {
  /** The name of the method. */
  readonly operation: string;
  /** The number of the call among the collectives of the group on this rank, or among its messages, from 0. */
  readonly sequence: number;
  /** The rank that reports the error, by its number in the group. */
  readonly rank: number;
}

export function abortedError(
  label: CallLabel,
  cause: AbortCause,
  options?: ErrorOptions,
): CollectiveError {
  const by = cause.rank === undefined ? 'the launcher' : `rank ${cause.rank} of the world`;
  return new CollectiveAbortedError(
    {
      asked: `${label.operation} #${label.sequence} on rank ${label.rank}`,
      ...(isBetweenRanks(cause.reason)
        ? { found: `the group has ended (${cause.reason})`, todo: BETWEEN_RANKS }
        : {
            found: `${by} ended the group (${cause.reason})`,
            todo: `Look for the first failure on ${by}`,
          }),
    },
    { ...label, abortedBy: cause.rank, reason: cause.reason },
    options,
  );
}
