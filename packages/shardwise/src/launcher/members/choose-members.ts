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

/** Whether each part of the state is there once. */
export function haveWholeState(candidates: readonly Candidate[], replicaSize: number): boolean {
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
