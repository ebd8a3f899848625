import type { Node } from '../graph/node.ts';
import { freeNode } from '../graph/ownership.ts';

/**
 * Values that the next realization must compute whoever asks for it: losses and gradients after
 * backward(), parameters after an update. Without it the next read would compute the step again.
 */
const pending = new Map<Node, () => void>();

/** Nodes that the program as built so far still reads, and nobody after it. */
const released = new Map<Node, string>();

/** `settle` runs once the node has its value. */
export function addPending(node: Node, settle: () => void): void {
  pending.set(node, settle);
}

export function removePending(node: Node): void {
  pending.delete(node);
}

/** Hands over what is pending. */
export function takePending(): ReadonlyMap<Node, () => void> {
  const taken = new Map(pending);
  pending.clear();
  return taken;
}

/** Puts back what a failed realization took. */
export function restorePending(taken: ReadonlyMap<Node, () => void>): void {
  for (const [node, settle] of taken) pending.set(node, settle);
}

/** Frees a node's memory once what is pending has been computed; `by` says so to later readers. */
export function freeAfterRun(node: Node, by: string): void {
  removePending(node);
  released.set(node, by);
}

/** The run of what was pending is over. */
export function freeReleased(): void {
  for (const [node, by] of released) if (node.value !== null) freeNode(node, by);
  released.clear();
}
