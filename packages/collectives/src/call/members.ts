import type { Member } from './record.ts';

/**
 * Ranks of the group that `rank` is put in by a split, ordered by key, then rank; undefined where
 * its colour is.
 */
export function membersOf(rank: number, members: readonly Member[]): readonly number[] | undefined {
  const color = members[rank]?.color;
  if (color === undefined) return undefined;
  return members
    .map((member, index) => ({ ...member, index }))
    .filter((member) => member.color === color)
    .sort((a, b) => a.key - b.key || a.index - b.index)
    .map((member) => member.index);
}
