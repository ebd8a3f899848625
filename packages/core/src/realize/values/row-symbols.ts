import type { Node, RowCount } from '../../graph/node.ts';
import type { Subgraph } from '../collect/collect.ts';

/** The numbers of rows that a run of a subgraph computes, in program order. */
export function rowCountsOf({ computed }: Subgraph): readonly RowCount[] {
  const limits = new Map<Node, number>();
  for (const { rowCount } of computed) {
    if (rowCount === null) continue;
    const { count, max } = rowCount;
    limits.set(count, Math.min(limits.get(count) ?? max, max));
  }
  return Array.from(limits, ([count, max]) => ({ count, max }));
}
