import { CollectiveAbortedError, type CollectiveError } from '@shardwise/core/spec';

/** How errors name a call. */
export interface CallLabel {
  /** The name of the method. */
  readonly operation: string;
  /** The number of the call among the collectives of the group on this rank, or among its messages, from 0. */
  readonly sequence: number;
  /** The rank that reports the error, by its number in the group. */
  readonly rank: number;
}

/** Why a group ended. `rank` is the rank of the world that ended it, or undefined if whoever started the ranks did. */
export interface AbortCause {
  readonly rank: number | undefined;
  readonly reason: string;
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

/**
 * Whether the reason is a disagreement of ranks that does not show which of them is wrong. The error then names nobody.
 */
export function isBetweenRanks(reason: string): boolean {
  return reason.startsWith('CollectiveMismatchError: ') || reason.includes(LOST);
}

export const BETWEEN_RANKS = 'Look at these ranks: which of them is the cause is not known';
/** The text that the reasons of lost messages contain. */
export const LOST = 'messages between them were lost';

/** The reason as a text for another thread or host. */
export function reasonText(reason: unknown): string {
  return reason instanceof Error ? `${reason.name}: ${reason.message}` : String(reason);
}
