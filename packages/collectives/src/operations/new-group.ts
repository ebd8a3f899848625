import type { CallOptions, ProcessGroup } from '@shardwise/core/spec';
import { newGroups } from './new-groups.ts';

/**
 * The group of some ranks of `group`, in the order of their ranks; undefined on those that are not
 * among them. All ranks of `group` call it, with the same ranks, as in PyTorch's new_group.
 */
export function newGroup(
  group: ProcessGroup,
  ranks: readonly number[],
  options?: CallOptions,
): Promise<ProcessGroup | undefined> {
  return newGroups(group, [ranks], options);
}
