import type { Node } from '@shardwise/core/extend';
import type { Message } from './message.ts';

/** What a rank does at once: it waits for values, computes others, sends some, and drops what nobody reads any more. */
export interface WorkItem {
  /** As `1F0`, for the timeline and for errors. */
  readonly name: string;
  readonly receives: readonly Message[];
  readonly computes: readonly Node[];
  readonly sends: readonly Message[];
  readonly frees: readonly Node[];
  readonly made: MadeByStage | null;
}

/** What a stage has made for others in a forward pass. */
export interface MadeByStage {
  readonly stage: number;
  readonly microbatch: number;
  readonly nodes: readonly Node[];
}

/** A work item before it is known who reads what. */
export interface WorkDraft {
  readonly name: string;
  readonly receives: Message[];
  readonly computes: Set<Node>;
  readonly sends: Message[];
  /** Null but for forward passes. */
  readonly made: MadeByStage | null;
}

export function draft(name: string, made: MadeByStage | null = null): WorkDraft {
  return { name, receives: [], computes: new Set(), sends: [], made };
}

/**
 * Says when each value that a rank computes or receives can be dropped: behind the last item that reads it. `kept`
 * stay; so does what was there before.
 */
export function withFrees(drafts: readonly WorkDraft[], kept: ReadonlySet<Node>): WorkItem[] {
  const made = new Set<Node>();
  const lastUse = new Map<Node, number>();
  for (const [index, { receives, computes, sends }] of drafts.entries()) {
    for (const { node } of receives) {
      made.add(node);
      lastUse.set(node, index);
    }
    for (const node of readsOf(computes, made)) lastUse.set(node, index);
    for (const node of computes) {
      made.add(node);
      lastUse.set(node, index);
    }
    for (const { node } of sends) if (made.has(node)) lastUse.set(node, index);
  }
  const frees = Map.groupBy(
    [...lastUse].filter(([node]) => !kept.has(node)),
    ([, index]) => index,
  );
  return drafts.map(({ name, receives, computes, sends, made: forOthers }, index) => ({
    name,
    receives,
    computes: [...computes],
    sends,
    frees: (frees.get(index) ?? []).map(([node]) => node),
    made: forOthers,
  }));
}

/** Which of the values that are there the computation of some nodes reads. */
function readsOf(roots: ReadonlySet<Node>, made: ReadonlySet<Node>): ReadonlySet<Node> {
  const reads = new Set<Node>();
  const seen = new Set(roots);
  for (const node of seen) {
    if (made.has(node)) reads.add(node);
    else if (node.value === null) for (const input of node.inputs) seen.add(input);
  }
  return reads;
}
