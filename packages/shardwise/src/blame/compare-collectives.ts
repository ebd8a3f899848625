import type { FlightDump, FlightEntry } from '@shardwise/collectives';
import { blamedCall, oneLine, signatureOf, splitsDiffer } from './describe-entry.ts';
import { firstTimeoutNs, type GroupView } from './group-view.ts';
import type { Absence, BlamedCall, Finding } from './verdict.ts';

/** The ranks that made one call of a group, and those that did not. */
interface Arrivals {
  readonly present: ReadonlyMap<number, FlightEntry>;
  readonly missing: readonly number[];
}

/**
 * Returns the first call of a group that its ranks made differently, or that a rank did not make. If there is none, it
 * returns the first call that did not finish, if any.
 */
export function compareCollectives(
  group: GroupView,
  dumps: ReadonlyMap<number, FlightDump>,
): readonly Finding[] {
  let unfinished: Finding | undefined;
  for (const sequence of sequencesOf(group)) {
    const arrivals = arrivalsAt(group, sequence, dumps);
    const { present, missing } = arrivals;
    const place = {
      group: oneLine(group.name),
      place: `call #${sequence}`,
      sequence,
      sinceNs: [...present.values()].reduce(
        (earliest, entry) => Math.min(earliest, entry.time_created_ns),
        Infinity,
      ),
      calls: callsOf(present),
    };
    const differing = differingRanks(group, present);
    if (differing.length > 0) {
      const siteHint = siteHintBefore(group, sequence);
      return [{ kind: 'differs', ...place, culprits: differing, siteHint }];
    }
    if (missing.length > 0) {
      const absences = missing.map((rank) => absenceOf(group, rank, dumps));
      const siteHint = siteHintBefore(group, sequence);
      return [{ kind: 'missing', ...place, culprits: missing, absences, siteHint }];
    }
    const open = place.calls.filter(({ state }) => state !== 'completed');
    if (open.length > 0) {
      unfinished ??= { kind: 'unfinished', ...place, culprits: open.map(({ rank }) => rank) };
    }
  }
  return unfinished === undefined ? [] : [unfinished];
}

/** Returns the sequence numbers in the records, and for each rank the first call that it has not made, ascending. */
function sequencesOf({ ranks }: GroupView): readonly number[] {
  const views = [...ranks.values()];
  const highest = views.reduce((last, view) => Math.max(last, view.last), -1);
  const sequences = new Set<number>();
  for (const view of views) {
    for (const sequence of view.collectives.keys()) sequences.add(sequence);
    if (view.last < highest) sequences.add(view.last + 1);
  }
  return [...sequences].sort((a, b) => a - b);
}

function arrivalsAt(
  { members, ranks }: GroupView,
  sequence: number,
  dumps: ReadonlyMap<number, FlightDump>,
): Arrivals {
  const present = new Map<number, FlightEntry>();
  const missing: number[] = [];
  for (const [rank, view] of ranks) {
    const entry = view.collectives.get(sequence);
    if (entry !== undefined) present.set(rank, entry);
    else if (sequence > view.last) missing.push(rank);
  }
  // A call leaves the state 'scheduled' only when all ranks have come to it. Then ranks without a dump are not missing.
  const allCame = [...present.values()].some(({ state }) => state !== 'scheduled');
  if (present.size > 0 && !allCame) {
    const candidates = missingAsSeen(present, dumps) ?? members;
    missing.push(...candidates.filter((rank) => !dumps.has(rank)));
  }
  return { present, missing: missing.sort((a, b) => a - b) };
}

/** Returns the ranks that a timeout of this call has named. Returns undefined if no timeout has. */
function missingAsSeen(
  present: ReadonlyMap<number, FlightEntry>,
  dumps: ReadonlyMap<number, FlightDump>,
): readonly number[] | undefined {
  for (const [rank, entry] of present) {
    const failure = dumps.get(rank)?.failure;
    if (failure?.record_id === entry.record_id && failure.missing_ranks !== null) {
      return failure.missing_ranks;
    }
  }
  return undefined;
}

/**
 * Returns the ranks outside of the largest party, which are those that disagree with most ranks. Of two parties of
 * equal size, the one with the lowest rank counts as the larger.
 */
function differingRanks(
  { members }: GroupView,
  present: ReadonlyMap<number, FlightEntry>,
): readonly number[] {
  const parties = Map.groupBy([...present], ([, entry]) => signatureOf(entry));
  if (parties.size > 1) {
    const sorted = [...parties.values()].sort(
      (a, b) => b.length - a.length || (a[0]?.[0] ?? 0) - (b[0]?.[0] ?? 0),
    );
    const others = sorted.slice(1).flatMap((party) => party.map(([rank]) => rank));
    return others.sort((a, b) => a - b);
  }
  const isDone = [...present.values()].some(({ state }) => state === 'completed');
  for (const [sender, from] of present) {
    if (isDone || from.splits === null) continue;
    for (const [receiver, to] of present) {
      const ranks = { from: members.indexOf(sender), to: members.indexOf(receiver) };
      if (splitsDiffer(from, to, ranks)) {
        return [...new Set([sender, receiver])].sort((a, b) => a - b);
      }
    }
  }
  return [];
}

function absenceOf(
  { ranks }: GroupView,
  rank: number,
  dumps: ReadonlyMap<number, FlightDump>,
): Absence {
  const view = ranks.get(rank);
  if (view === undefined) return { rank, kind: 'no dump' };
  const timeoutNs = firstTimeoutNs(dumps.values());
  if (view.late !== undefined && timeoutNs !== undefined) {
    const late = blamedCall(rank, view.late);
    return { rank, kind: 'late', late, lateMs: (late.createdNs - timeoutNs) / 1e6 };
  }
  const last = view.latest === undefined ? undefined : blamedCall(rank, view.latest);
  return { rank, kind: 'not called', last };
}

/**
 * Returns the first calls before `before` that ranks made from different lines after they had agreed. If a rank leaves
 * out a call between similar calls, this shows long before the calls themselves differ.
 */
function siteHintBefore(group: GroupView, before: number): readonly BlamedCall[] {
  let agreed = false;
  for (const sequence of sequencesOf(group)) {
    if (sequence >= before) break;
    const calls = [...group.ranks].flatMap(([rank, { collectives }]) => {
      const entry = collectives.get(sequence);
      return entry === undefined ? [] : [blamedCall(rank, entry)];
    });
    const sites = new Set(calls.map(({ site }) => site));
    if (calls.length < 2 || sites.has(undefined)) continue;
    if (sites.size === 1) agreed = true;
    // Ranks that never agreed run different lines anyway, as in a pipeline, so their lines are no hint.
    else return agreed ? calls : [];
  }
  return [];
}

function callsOf(present: ReadonlyMap<number, FlightEntry>): readonly BlamedCall[] {
  return [...present]
    .map(([rank, entry]) => blamedCall(rank, entry))
    .sort((a, b) => a.rank - b.rank);
}
