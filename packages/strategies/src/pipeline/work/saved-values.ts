import type { Node, Op } from '@shardwise/core/extend';

/** Operations that cost nothing, or little compared to keeping their results. */
const cheap: ReadonlySet<Op> = new Set([
  'reshape',
  'permute',
  'expand',
  'detach',
  'constant',
  'iota',
]);

/** Whether a value should be computed again rather than kept from one program to the next. */
function isCheap({ op }: Node): boolean {
  return cheap.has(op);
}

export interface Below {
  /** The nodes that the program computes. */
  readonly computed: ReadonlySet<Node>;
  /** The nodes that the program takes from earlier programs, because computing them again would cost something. */
  readonly taken: ReadonlySet<Node>;
}

/**
 * Finds the nodes that the roots need. The search ends at leaves, at nodes with a value, at nodes for which `isReady`
 * returns true, and at nodes that an earlier program can hand over (`isEarlier`).
 */
export function below(
  roots: Iterable<Node>,
  isReady: (node: Node) => boolean,
  isEarlier: (node: Node) => boolean,
): Below {
  const own = [...roots];
  const first = new Set(own);
  const seen = new Set(own);
  const computed = new Set<Node>();
  const taken = new Set<Node>();
  for (const node of seen) {
    if (node.value !== null || node.op === 'input') continue;
    if (!first.has(node) && isReady(node)) continue;
    if (isEarlier(node) && !isCheap(node)) {
      taken.add(node);
      continue;
    }
    computed.add(node);
    for (const input of node.inputs) seen.add(input);
  }
  return { computed, taken };
}
