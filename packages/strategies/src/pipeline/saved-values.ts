import type { Node, Op } from '@shardwise/core/extend';

/** These cost nothing, or little against keeping what they make. */
const cheap: ReadonlySet<Op> = new Set([
  'reshape',
  'permute',
  'expand',
  'detach',
  'constant',
  'iota',
]);

/** Whether it is better computed again than kept from one program to the next. */
export function isCheap({ op }: Node): boolean {
  return cheap.has(op);
}

export interface Below {
  /** Computed on the way. */
  readonly computed: ReadonlySet<Node>;
  /** What `isEarlier` says another program can hand over, and costs something. */
  readonly taken: ReadonlySet<Node>;
}

/** What the computation of some nodes needs, which ends at values that are there and at those in `ready`. */
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
