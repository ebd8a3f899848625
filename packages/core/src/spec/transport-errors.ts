import {
  CollectiveAbortedError,
  type CollectiveError,
  CollectiveMismatchError,
  ShardwiseError,
} from './errors.ts';

/** Why ranks can no longer communicate. */
export interface AbortCause {
  /** The rank of the world that is the cause. Undefined if whoever started the ranks is. */
  readonly rank: number | undefined;
  readonly reason: string;
}

/**
 * The error with which a transport's pending calls reject when `rank` has closed the transport, or has passed
 * on why it must close. If `reason` is itself the error of a closed transport or of a lost peer, the result has
 * the reason of `reason`.
 */
export function peerClosedError(rank: number, reason: Error | undefined): CollectiveError {
  const cause =
    reason === undefined ? { rank, reason: 'it closed the group' } : abortCauseOf(reason, rank);
  const by = cause.rank ?? rank;
  return new CollectiveAbortedError(
    {
      asked: 'A message',
      ...(isBetweenRanks(cause.reason)
        ? { found: `the transport is closed (${cause.reason})`, todo: BETWEEN_RANKS }
        : {
            found: `rank ${by} of the world closed the transport (${cause.reason})`,
            todo: `Look for the first failure on rank ${by}`,
          }),
    },
    { abortedBy: by, reason: cause.reason },
  );
}

/**
 * The error with which a transport's pending calls reject when a peer, or whoever started the ranks, has sent why it
 * closed the transport. A peer finds the cause of its own reason by `abortCauseOf`.
 */
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

/**
 * The error with which a transport's pending calls reject when `rank` is gone, for example because its connection was
 * closed without a word. `reason` says how that was noticed.
 */
export function peerLostError(rank: number, reason: string): CollectiveError {
  return new CollectiveAbortedError(
    {
      asked: 'A message',
      found: `rank ${rank} of the world is lost (${reason})`,
      todo: `Look for the first failure on rank ${rank}`,
    },
    { abortedBy: rank, reason },
  );
}

/** A receive of a transport, and the message that it expects. */
export interface ExpectedMessage {
  /** The rank that receives. */
  readonly rank: number;
  /** The rank that sends. */
  readonly peer: number;
  readonly tag: number;
  readonly byteLength: number;
}

/**
 * The error of a receive whose message has another length. `foundBytes` is undefined if it is only known that more
 * bytes came than were expected.
 */
export function messageLengthError(
  { rank, peer, tag, byteLength }: ExpectedMessage,
  foundBytes: number | undefined,
): CollectiveError {
  return new CollectiveMismatchError(
    {
      asked: `A message of ${byteLength} bytes on rank ${rank} from rank ${peer}`,
      found: foundBytes === undefined ? 'it has more' : `it has ${foundBytes} bytes`,
      todo: 'Make both ranks pass buffers of one size',
    },
    { rank, from: peer, tag },
  );
}

/**
 * What made a transport fail, as far as its error says. A CollectiveAbortedError names the rank in `abortedBy`,
 * and a plain CollectiveError names the lost peer in `rank`. For any other error the cause is `rank`.
 */
export function abortCauseOf(error: unknown, rank: number): AbortCause {
  if (ShardwiseError.isInstance(error)) {
    const { abortedBy, reason, rank: lost } = error.fields;
    const isKnown = typeof abortedBy === 'number' || abortedBy === undefined;
    if (error.code === 'COLLECTIVE_ABORTED' && isKnown && typeof reason === 'string') {
      return { rank: abortedBy, reason };
    }
    if (error.code === 'COLLECTIVE' && typeof lost === 'number') {
      return { rank: lost, reason: reasonText(error) };
    }
  }
  return { rank, reason: reasonText(error) };
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
