import type { FlightDump } from '@shardwise/collectives';
import { compareCollectives } from './compare-collectives.ts';
import { compareMessages } from './compare-messages.ts';
import { groupViews } from './group-view.ts';
import type { Finding, Verdict } from './verdict.ts';

/**
 * Compares the dumps of a run by group and sequence number, and finds the first call that a rank made differently or
 * did not make. A rank that is missing in one group because it waits for others in another group is not to blame. The
 * ranks that it waits for are.
 */
export function findBlame(dumps: ReadonlyMap<number, FlightDump>): Verdict {
  const groups = groupViews(dumps);
  const findings = groups.flatMap((group) => [
    ...compareCollectives(group, dumps),
    ...compareMessages(group, dumps),
  ]);
  const strong = findings.filter(({ kind }) => kind !== 'unfinished');
  const first = strong.filter((finding) => !isConsequence(finding, strong));
  const [blamed] = [first, strong, findings].flatMap((list) => list.toSorted(bySince));
  if (blamed !== undefined) return blamed;
  const calls = [...dumps.values()].reduce((sum, dump) => sum + dump.entries.length, 0);
  return { kind: 'consistent', calls, groups: groups.length };
}

/** Whether a rank that is missing here waits in the call of another finding. */
function isConsequence(finding: Finding, all: readonly Finding[]): boolean {
  if (finding.kind !== 'missing') return false;
  return all.some(
    (other) =>
      other !== finding &&
      other.calls.some(
        ({ rank, state }) => state !== 'completed' && finding.culprits.includes(rank),
      ),
  );
}

/** Sorts findings by time. Those whose time no record has come last. */
function bySince(a: Finding, b: Finding): number {
  return a.sinceNs === b.sinceNs ? a.sequence - b.sequence : a.sinceNs - b.sinceNs;
}
