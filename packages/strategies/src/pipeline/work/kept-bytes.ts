import { dtypes, elementCount, type Node, type ProcessGroup } from '@shardwise/core/extend';
import type { WorkItem } from './rank-work.ts';

/**
 * Returns the bytes that are kept after each item: the values that items have computed or received and not dropped yet.
 * Nodes in `excluded` do not count.
 */
export function keptBytes(
  items: readonly WorkItem[],
  excluded: ReadonlySet<Node>,
): readonly number[] {
  const kept = new Map<Node, number>();
  let bytes = 0;
  return items.map(({ receives, computes, frees }) => {
    for (const node of [...receives.map((message) => message.node), ...computes]) {
      if (kept.has(node) || excluded.has(node) || node.value !== null) continue;
      const own = elementCount(node.shape) * dtypes[node.dtype].bytes;
      kept.set(node, own);
      bytes += own;
    }
    for (const node of frees) {
      bytes -= kept.get(node) ?? 0;
      kept.delete(node);
    }
    return bytes;
  });
}

/** Returns the number of each rank. It is a collective. */
export async function ofAllRanks(own: number, group: ProcessGroup): Promise<readonly number[]> {
  const all = new Float64Array(group.size);
  const input = new Uint8Array(Float64Array.of(own).buffer);
  await group.allGather(
    { bytes: input, dtype: 'u8' },
    { bytes: new Uint8Array(all.buffer), dtype: 'u8' },
  );
  return [...all];
}
