import {
  CollectiveError,
  CollectiveMismatchError,
  CollectiveTimeoutError,
  LOST,
} from '@shardwise/core/spec';
import type { CallLabel } from './aborted-error.ts';
import { decodeRecord } from './record-codec.ts';
import { describeCall } from './record.ts';

const MAX_NAMED = 16;

/**
 * The error for a transport that has lost the record of rank `from` for this call, or has brought another record twice.
 * The record of call `found` came instead.
 */
export function lostRecordError(
  label: CallLabel,
  from: number,
  found: number | undefined,
): CollectiveError {
  const { operation, sequence, rank } = label;
  return new CollectiveError(
    {
      asked: `${operation} #${sequence} of rank ${rank} with rank ${from}`,
      found: `the record of call #${found} of rank ${from} came instead, so ${LOST}`,
      todo: 'Look at the transport',
    },
    { operation, sequence, lostBetween: [from, rank] },
  );
}

/** The ranks for which a call was still waiting when its time was over. */
export interface LateRanks {
  /** Ranks that have not come to the call. */
  readonly missing: readonly number[];
  /** Ranks that have come to the call and have not finished it. */
  readonly slow: readonly number[];
  /** Ranks from which messages have not come. */
  readonly awaited?: readonly number[];
}

/** The error of a call whose time is over. `call` describes the call with its arguments. */
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
        ? `If ${listRanks(awaited)} went on to the next call, messages were lost on the way: look at the transport. Otherwise raise timeoutMs`
        : 'Check that they run and make the same calls, or raise timeoutMs',
    },
    { ...label, timeoutMs, ...ranks },
  );
}

/**
 * The error for ranks whose calls do not fit together. `records` are their encoded records, by rank. It says which
 * ranks made which call, and what they are by `names`, if it is known. If the calls of all ranks may differ, as those with splits do, or there are too many different
 * ones, it names only `pair`, the first two ranks that were found to differ.
 */
export function mismatchError(
  label: CallLabel,
  records: readonly Float64Array[],
  pair: readonly [number, number],
  names: readonly string[] = [],
): CollectiveError {
  const calls = records.map((fields) => decodeRecord(fields, records.length));
  const described = calls.map((call, rank) => {
    const what = call === undefined ? 'an unknown call' : describeCall(call);
    const name = names[rank] ?? '';
    return name === '' ? what : `${what}, ${name}`;
  });
  const isNamed = names.some((name) => name !== '');
  const sides = sidesOf(described);
  const isTold = sides.length <= MAX_SIDES && calls.every((call) => call?.splits === undefined);
  const told = isTold
    ? sides
    : pair.map((rank) => ({ ranks: [rank], call: described[rank] ?? 'an unknown call' }));
  return callsDifferError(label, told, isNamed ? SAME_LINES : SAME_CALLS);
}

/** Some ranks, and the call that they made. */
export interface Side {
  readonly ranks: readonly number[];
  /** Description of the call. */
  readonly call: string;
}

/** Groups the ranks by their calls. `calls` has the description of each rank's call. */
export function sidesOf(calls: readonly string[]): readonly Side[] {
  const ranksOf = Map.groupBy(calls.keys(), (rank) => calls[rank] ?? '');
  return [...ranksOf].map(([call, ranks]) => ({ ranks, call }));
}

const MAX_SIDES = 4;

const SAME_CALLS =
  'Make every rank call the same operations in the same order, with the same sizes and dtypes';
export const SAME_LINES =
  'A branch or a loop took another way on one of the ranks. Have all ranks run these lines in the same order, also where only one of them uses the result';

export function callsDifferError(
  label: CallLabel,
  sides: readonly Side[],
  todo: string = SAME_CALLS,
): CollectiveError {
  const [first = { ranks: [], call: '' }, ...others] = sides;
  return new CollectiveMismatchError(
    {
      asked: `Call #${label.sequence} on ${listRanks(first.ranks)} is ${first.call}`,
      found: others.map(({ ranks, call }) => `on ${listRanks(ranks)} it is ${call}`).join(', '),
      todo,
    },
    { ...label, ranks: sides.map(({ ranks }) => ranks[0]), calls: sides.map(({ call }) => call) },
  );
}

function nameRanks(ranks: readonly number[]): string {
  return `${listRanks(ranks)} ${ranks.length === 1 ? 'has' : 'have'}`;
}

/** Names ranks, and counts those after the first ones. */
export function listRanks(ranks: readonly number[]): string {
  const named = ranks.slice(0, MAX_NAMED).join(', ');
  const rest = ranks.length > MAX_NAMED ? ` and ${ranks.length - MAX_NAMED} more` : '';
  return `${ranks.length === 1 ? 'rank' : 'ranks'} ${named}${rest}`;
}
