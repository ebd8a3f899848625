import { isCollectiveOp, type Node } from '@shardwise/core/extend';
import type { Message } from '../messages/message.ts';

/**
 * One unit of a rank's work: it waits for values, computes others, sends some, and frees those that nobody reads any
 * more.
 */
export interface WorkItem {
  /** A name such as `1F0`, for the timeline and for errors. */
  readonly name: string;
  readonly receives: readonly Message[];
  readonly computes: readonly Node[];
  readonly sends: readonly Message[];
  readonly frees: readonly Node[];
  readonly made: MadeByStage | null;
}

/** The values that a stage has made for others in a forward pass. */
export interface MadeByStage {
  readonly stage: number;
  readonly microbatch: number;
  readonly nodes: readonly Node[];
}

/** A work item before it is known when its values can be freed. */
export interface WorkDraft {
  readonly name: string;
  readonly receives: Message[];
  readonly computes: Set<Node>;
  readonly sends: Message[];
  /** The values that a forward pass makes for others. Null for other work. */
  readonly made: MadeByStage | null;
}

export function draft(name: string, made: MadeByStage | null = null): WorkDraft {
  return { name, receives: [], computes: new Set(), sends: [], made };
}

/**
 * Decides when each value that a rank computes or receives is freed: after the last item that reads it. Nodes in
 * `kept`, and values that existed before the work, are not freed.
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

/** Returns the values in `made` that the computation of the roots reads. */
function readsOf(roots: ReadonlySet<Node>, made: ReadonlySet<Node>): ReadonlySet<Node> {
  const reads = new Set<Node>();
  const seen = new Set(roots);
  for (const node of seen) {
    if (made.has(node)) reads.add(node);
    else if (node.value === null) for (const input of node.inputs) seen.add(input);
  }
  return reads;
}

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
