import { checkOptions, option } from '@shardwise/core/base';
import {
  type CallOptions,
  CollectiveMismatchError,
  ConfigError,
  type ProcessGroup,
} from '@shardwise/core/spec';
import { requireGroup } from '../call/require-group.ts';

const listsRules = { lists: option.required(option.listOf(option.listOf(option.number))) };

/**
 * Makes groups that have no rank in common, in one call that all ranks of `group` make with the same lists.
 * Returns the group of this rank, or undefined if it is in none, so that `part?.allReduce(...)` does nothing
 * there. (PyTorch returns GroupMember.NON_GROUP_MEMBER.) As in PyTorch, the ranks of a group are sorted,
 * whatever the order of its list. Throws ConfigError for lists with a wrong rank, and CollectiveMismatchError
 * if the ranks' lists differ.
 */
export async function newGroups(
  group: ProcessGroup,
  lists: readonly (readonly number[])[],
  options?: CallOptions,
): Promise<ProcessGroup | undefined> {
  requireGroup('newGroups', group);
  checkOptions('newGroups', { lists }, listsRules);
  checkLists(lists, group.size);
  const sorted = lists.map((list) => list.toSorted((a, b) => a - b));
  const index = sorted.findIndex((list) => list.includes(group.rank));
  const color = index < 0 ? undefined : (colorOf(sorted) + index) % 2 ** 31;
  const part = await group.split(color, group.rank, options);
  const expected = sorted[index]?.length;
  if (part === undefined || part.size === expected) return part;
  const error = listsDifferError(group.rank, sorted[index] ?? [], part.size);
  group.close(error);
  throw error;
}

function checkLists(lists: readonly (readonly number[])[], size: number): void {
  const seen = new Set<number>();
  for (const list of lists) {
    if (list.length === 0) throw refusal(lists, 'a group of no ranks');
    for (const rank of list) {
      if (!Number.isInteger(rank) || rank < 0 || rank >= size) {
        throw refusal(lists, `rank ${rank}, where there are 0 to ${size - 1}`);
      }
      if (seen.has(rank)) throw refusal(lists, `rank ${rank} twice`);
      seen.add(rank);
    }
  }
}

function describeLists(lists: readonly (readonly number[])[]): string {
  return lists.map((list) => `[${list.join(', ')}]`).join(', ');
}

function refusal(lists: readonly (readonly number[])[], found: string): ConfigError {
  return new ConfigError(
    {
      asked: `New groups of the ranks ${describeLists(lists)}`,
      found,
      todo: 'Name each rank once. Make groups that have ranks in common in separate calls',
    },
    { lists },
  );
}

function listsDifferError(
  rank: number,
  list: readonly number[],
  size: number,
): CollectiveMismatchError {
  return new CollectiveMismatchError(
    {
      asked: `A new group of the ranks [${list.join(', ')}] on rank ${rank}`,
      found: `only ${size} of these ${list.length} ranks asked for the same`,
      todo: 'Make every rank of the parent group pass the same lists of ranks',
    },
    { rank, list, size },
  );
}

/**
 * A colour that follows from the lists. Ranks with other lists almost certainly have another colour, and are
 * then missing from the group, which its size shows. It is the FNV-1a hash in 31 bits, which every kind of
 * group takes as a colour.
 */
function colorOf(lists: readonly (readonly number[])[]): number {
  let hash = 0x811c9dc5;
  for (const list of lists) {
    for (const number of [list.length, ...list]) {
      hash = Math.imul(hash ^ number, 0x01000193);
    }
  }
  return hash >>> 1;
}

/**
 * The group of some ranks of `group`, in the order of their ranks; undefined on the other ranks. All ranks of
 * `group` call it with the same ranks, as in PyTorch's new_group. Throws as newGroups does.
 */
export function newGroup(
  group: ProcessGroup,
  ranks: readonly number[],
  options?: CallOptions,
): Promise<ProcessGroup | undefined> {
  return newGroups(group, [ranks], options);
}
