import type { Node } from '../../graph/node.ts';

/** The nodes that `roots` are computed from and that were made after `olderId`. */
export function nodesSince(roots: Iterable<Node>, olderId: number): ReadonlySet<Node> {
  const seen = new Set<Node>();
  for (const root of roots) if (root.id > olderId) seen.add(root);
  for (const node of seen) {
    for (const input of node.inputs) if (input.id > olderId) seen.add(input);
  }
  return seen;
}
