import {
  CollectiveAbortedError,
  CollectiveError,
  CollectiveMismatchError,
  CollectiveTimeoutError,
  ShardwiseError,
} from '@shardwise/core/spec';
import { decodeRecord } from './record-codec.ts';
import { describeCall } from './record.ts';

/** Which call failed, and where. */
export interface CallLabel {
  /** Name of the method. */
  readonly operation: string;
  /** Counts the collectives of the group, or the transfers between two ranks. */
  readonly sequence: number;
  /** The rank that reports, of the group. */
  readonly rank: number;
}

/** Why a group ended; `rank` is that of the world; undefined: it was ended by whoever started the ranks. */
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

/** What two ranks find, or one of them, without knowing which of them is wrong: nobody is named. */
function isBetweenRanks(reason: string): boolean {
  return reason.startsWith('CollectiveMismatchError: ') || reason.includes(LOST);
}

const BETWEEN_RANKS = 'Look at these ranks: which of them is the cause is not known';
const MAX_NAMED = 16;
const LOST = 'messages between them were lost';

/** A transport has lost the record of a call of rank `from`, or brought one twice: that of call `found` came instead. */
export function lostRecordError(
  label: CallLabel,
  from: number,
  found: number | undefined,
): CollectiveError {
  const { operation, sequence, rank } = label;
  return new CollectiveError(
    {
      asked: `${operation} #${sequence} of rank ${rank} with rank ${from}`,
      found: `what rank ${from} says of its call #${found} came instead, so ${LOST}`,
      todo: 'Look at the transport',
    },
    { operation, sequence, lostBetween: [from, rank] },
  );
}

/** Whom a call waits for that ends too late. */
export interface LateRanks {
  /** They have not come. */
  readonly missing: readonly number[];
  /** They have come, and not finished. */
  readonly slow: readonly number[];
  /** Messages of theirs are to come. */
  readonly awaited?: readonly number[];
}

/** `call` is the description of what was called. */
export function timeoutError(
  label: CallLabel,
  call: string,
  timeoutMs: number,
  ranks: LateRanks,
): CollectiveError {
  const { missing, slow, awaited = [] } = ranks;
  const isAwaiting = missing.length === 0 && awaited.length > 0;
  const who =
    missing.length > 0
      ? `${nameRanks(missing)} not arrived`
      : slow.length > 0
        ? `${nameRanks(slow)} arrived but not finished`
        : isAwaiting
          ? `all ranks have arrived, but not the messages to rank ${label.rank} from ${listRanks(awaited)}`
          : 'all ranks have arrived but the data has not';
  return new CollectiveTimeoutError(
    {
      asked: `${label.operation} #${label.sequence} on rank ${label.rank}, ${call}`,
      found: `after ${timeoutMs} ms ${who}`,
      todo: isAwaiting
        ? `Where ${listRanks(awaited)} went on to the next call, messages were lost on the way: look at the transport; else raise timeoutMs`
        : 'Check that they run and make the same calls, or raise timeoutMs',
    },
    { ...label, timeoutMs, ...ranks },
  );
}

/**
 * Ranks called what does not fit, as their encoded records say: who called what. `pair` is the first that was
 * found, of which alone is told where calls of all ranks differ by right (splits), or there are too many.
 */
export function mismatchError(
  label: CallLabel,
  records: readonly Float64Array[],
  pair: readonly [number, number],
): CollectiveError {
  const calls = records.map((fields) => decodeRecord(fields, records.length));
  const described = calls.map((call) =>
    call === undefined ? 'an unknown call' : describeCall(call),
  );
  const sides = sidesOf(described);
  const isTold = sides.length <= MAX_SIDES && calls.every((call) => call?.splits === undefined);
  if (isTold) return callsDifferError(label, sides);
  return callsDifferError(
    label,
    pair.map((rank) => ({ ranks: [rank], call: described[rank] ?? 'an unknown call' })),
  );
}

/** What some ranks called. */
export interface Side {
  readonly ranks: readonly number[];
  /** Description of the call. */
  readonly call: string;
}

/** `calls`: by rank. */
export function sidesOf(calls: readonly string[]): readonly Side[] {
  const ranksOf = Map.groupBy(calls.keys(), (rank) => calls[rank] ?? '');
  return [...ranksOf].map(([call, ranks]) => ({ ranks, call }));
}

const MAX_SIDES = 4;

export function callsDifferError(label: CallLabel, sides: readonly Side[]): CollectiveError {
  const [first = { ranks: [], call: '' }, ...others] = sides;
  return new CollectiveMismatchError(
    {
      asked: `Call #${label.sequence} on ${listRanks(first.ranks)} is ${first.call}`,
      found: others.map(({ ranks, call }) => `on ${listRanks(ranks)} it is ${call}`).join(', '),
      todo: 'Make every rank call the same operations in the same order, with the same sizes and dtypes',
    },
    { ...label, ranks: sides.map(({ ranks }) => ranks[0]), calls: sides.map(({ call }) => call) },
  );
}

/** Text that another thread or host can be told. */
export function reasonText(reason: unknown): string {
  return reason instanceof Error ? `${reason.name}: ${reason.message}` : String(reason);
}

function nameRanks(ranks: readonly number[]): string {
  return `${listRanks(ranks)} ${ranks.length === 1 ? 'has' : 'have'}`;
}

function listRanks(ranks: readonly number[]): string {
  const named = ranks.slice(0, MAX_NAMED).join(', ');
  const rest = ranks.length > MAX_NAMED ? ` and ${ranks.length - MAX_NAMED} more` : '';
  return `${ranks.length === 1 ? 'rank' : 'ranks'} ${named}${rest}`;
}

/** What a transport's pending calls reject with when `rank` has closed it, or has passed on why it must. */
export function peerClosedError(rank: number, reason: Error | undefined): CollectiveError {
  const cause =
    reason === undefined ? { rank, reason: 'it closed the group' } : causeOf(reason, rank);
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
 * What made a transport fail, as far as its error says so: by `abortedBy`, or by the `rank` of a CollectiveError of
 * no other kind, which is that of the lost peer. Else `rank` did.
 */
export function causeOf(error: unknown, rank: number): AbortCause {
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
