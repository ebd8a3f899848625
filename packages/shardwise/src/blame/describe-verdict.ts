import type { UnreadableDump } from './read-dumps.ts';
import type { Absence, BlamedCall, Finding, SiteHint, Verdict } from './verdict.ts';
import { displayPath } from '../text/display-path.ts';
import { oneLine } from './describe-entry.ts';

const NAMED_RANKS = 8;

/** Describes a verdict: a headline with the ranks to look at, then what each of them did. */
export function describeVerdict(
  verdict: Verdict,
  unreadable: readonly UnreadableDump[] = [],
): readonly string[] {
  return [
    ...linesOf(verdict),
    ...unreadable.map(
      ({ path, reason }) => `Not read: ${oneLine(`${displayPath(path)}: ${reason}`)}`,
    ),
  ];
}

function linesOf(verdict: Verdict): readonly string[] {
  switch (verdict.kind) {
    case 'consistent':
      return [
        `No rank differs: all ${verdict.calls} calls that the dumps hold, on ${verdict.groups} groups, agree and are completed.`,
      ];
    case 'differs':
      return [
        `${nameRanks(verdict.culprits)} ${verb(verdict, 'differs', 'differ')} first, at ${where(verdict)}:`,
        ...table(verdict.calls.map((call) => describeCall(call))),
        ...hint(verdict.siteHint),
      ];
    case 'missing':
      return [
        `${nameRanks(verdict.culprits)} ${verb(verdict, 'is', 'are')} missing first, at ${where(verdict)}:`,
        ...table([
          ...verdict.calls.map((call) => describeCall(call)),
          ...(verdict.calls.length === 0 ? [forgotten()] : []),
          ...verdict.absences.map(describeAbsence),
        ]),
        ...hint(verdict.siteHint),
      ];
    case 'unfinished':
      return [
        `All ranks came to ${where(verdict)}, but ${nameRanks(verdict.culprits, 'rank')} ${verb(verdict, 'has', 'have')} not finished it:`,
        ...table(verdict.calls.map((call) => describeCall(call, true))),
      ];
    default:
      return verdict satisfies never;
  }
}

interface Row {
  readonly rank: number | undefined;
  readonly text: string;
}

function describeCall(call: BlamedCall, withState = false): Row {
  const state = withState ? `, ${call.state}` : '';
  return { rank: call.rank, text: `${callAtSite(call)}${state}` };
}

function describeAbsence(absence: Absence): Row {
  switch (absence.kind) {
    case 'no dump':
      return {
        rank: absence.rank,
        text: 'left no dump: it ended without one, or its thread was busy until it was ended',
      };
    case 'late':
      return {
        rank: absence.rank,
        text: `came ${(absence.lateMs / 1000).toFixed(1)} s after the others had given up: ${callAtSite(absence.late)}`,
      };
    case 'not called':
      return {
        rank: absence.rank,
        text:
          absence.last === undefined
            ? 'made no call'
            : `its last call was #${absence.last.sequence}, ${callAtSite(absence.last)}, ${absence.last.state}`,
      };
    default:
      return absence satisfies never;
  }
}

function forgotten(): Row {
  return { rank: undefined, text: "the others' call is no longer in their records" };
}

function callAtSite({ call, site }: BlamedCall): string {
  return site === undefined ? call : `${call} at ${site}`;
}

function hint(calls: SiteHint): readonly string[] {
  const [first] = calls;
  if (first === undefined) return [];
  return [
    `They called from different lines before that, first at call #${first.sequence}; one may have left out a call there:`,
    ...table(calls.map((call) => describeCall(call))),
  ];
}

/** Formats rows as lines. Ranks with the same text share a line. */
function table(rows: readonly Row[]): readonly string[] {
  const groups = [...Map.groupBy(rows, ({ text }) => text)].map(([text, same]) => ({
    ranks: nameRanks(
      same.flatMap(({ rank }) => rank ?? []),
      'rank',
    ),
    text,
  }));
  const width = Math.max(...groups.map(({ ranks }) => ranks.length));
  return groups.map(({ ranks, text }) => `  ${ranks.padEnd(width)}  ${text}`);
}

function where({ place, group }: Finding): string {
  return `${place} of group ${group}`;
}

function verb({ culprits }: Finding, one: string, many: string): string {
  return culprits.length === 1 ? one : many;
}

/** Names ranks, such as `Rank 1`, `Ranks 1, 2` or `Ranks 0, 1, … and 56 others`. */
function nameRanks(ranks: readonly number[], word: 'Rank' | 'rank' = 'Rank'): string {
  if (ranks.length === 0) return '';
  const named = ranks.slice(0, NAMED_RANKS).join(', ');
  const more = ranks.length - NAMED_RANKS;
  return `${word}${ranks.length === 1 ? '' : 's'} ${named}${more > 0 ? ` and ${more} others` : ''}`;
}
