import { isCollectiveOp, type Node } from '@shardwise/core/extend';
import type { WorkDraft } from './rank-work.ts';

/**
 * Makes each collective on parameters run once per pass: the first program that reads its result computes and keeps it
 * for the others. Returns the nodes that are kept for this.
 */
export function keepCollected(drafts: readonly WorkDraft[]): ReadonlySet<Node> {
  const made = new Set<Node>();
  const firstReader = new Map<Node, WorkDraft>();
  const kept = new Set<Node>();
  for (const item of drafts) {
    for (const { node } of item.receives) made.add(node);
    const seen = new Set(item.computes);
    for (const node of seen) {
      if (node.value !== null || made.has(node)) continue;
      if (isCollectiveOp(node.op)) {
        const first = firstReader.get(node);
        if (first === undefined) firstReader.set(node, item);
        else {
          first.computes.add(node);
          kept.add(node);
          continue;
        }
      }
      for (const input of node.inputs) seen.add(input);
    }
    for (const node of item.computes) made.add(node);
  }
  return kept;
}
