import type { MemberSlot } from './member-slot.ts';

/** What decides whether a rank trains with the others. */
export type Candidate = Pick<MemberSlot, 'number' | 'phase' | 'hasEntered'>;

/**
 * Returns those that train together next, in rank order: as many whole replicas as the candidates make up. A candidate has
 * the part of the state that its number modulo `replicaSize` says, so that those of different replicas can make up one.
 * Candidates that have the state go before others, and members before those that wait.
 */
export function chooseMembers<Of extends Candidate>(
  candidates: readonly Of[],
  replicaSize: number,
): readonly Of[] {
  const parts = partsOf(candidates, replicaSize).map((part) =>
    part.toSorted(
      (a, b) =>
        Number(b.hasEntered) - Number(a.hasEntered) ||
        Number(b.phase === 'member') - Number(a.phase === 'member') ||
        a.number - b.number,
    ),
  );
  const replicas = Math.min(...parts.map(({ length }) => length));
  const chosen = parts.map((part) =>
    part.slice(0, replicas).toSorted((a, b) => a.number - b.number),
  );
  return Array.from({ length: replicas }, (_, replica) =>
    chosen.flatMap((part) => part.slice(replica, replica + 1)),
  ).flat();
}

/** What those who go on must be. */
interface Needed {
  readonly min: number;
  readonly replicaSize: number;
  /** Whether ranks have trained, so that a state would be lost. */
  readonly haveEntered: boolean;
}

/** Says why those that are left cannot go on: too few of them make up replicas, or none has a part of the state. */
export function lackOf(
  left: readonly Candidate[],
  { min, replicaSize, haveEntered }: Needed,
): string | undefined {
  const count = chooseMembers(left, replicaSize).length;
  if (count < Math.max(min, 1)) {
    const ranks = count === 1 ? '1 rank is' : `${count} ranks are`;
    const have =
      replicaSize === 1
        ? `${ranks} left`
        : `The ranks that are left make up ${count / replicaSize} replicas of ${replicaSize} ranks`;
    return `${have}, and --min-nproc asks for ${min} ranks, so all of them end.`;
  }
  if (!haveEntered || haveWholeState(left, replicaSize)) return undefined;
  return `No rank that is left has one of the ${replicaSize} parts of the state, so all of them end.`;
}

/** Whether each part of the state is there once. */
function haveWholeState(candidates: readonly Candidate[], replicaSize: number): boolean {
  return partsOf(candidates, replicaSize).every((part) =>
    part.some(({ hasEntered }) => hasEntered),
  );
}

function partsOf<Of extends Candidate>(
  candidates: readonly Of[],
  replicaSize: number,
): readonly (readonly Of[])[] {
  return Array.from({ length: replicaSize }, (_, part) =>
    candidates.filter(({ number }) => number % replicaSize === part),
  );
}
