import type { Node } from '../graph/node.ts';
import { freeNode } from '../graph/ownership.ts';
import { currentScope, rankState, within } from '../ambient.ts';
import type { Outcome, PendingWork, UpdateGroup } from './pending-work.ts';

/** As soon as so many updates of one leaf, or additions to one gradient, have piled up, they are computed. */
const mostDepth = 64;

// Pending is what the next realization must compute whoever asks for it: losses and gradients after
// backward(), parameters after an update. Without it the next read would compute the step again.
const { pending, released } = rankState;

/**
 * What is added inside `body` is computed whole or dropped whole, also where the body throws; `dropped` is called
 * in the latter case.
 */
export function asOneUpdate<T>(dropped: () => void, body: () => T): T {
  const updateGroup = { dropped };
  try {
    return within('asOneUpdate', { updateGroup }, body);
  } catch (error) {
    dropUpdates(updateGroup);
    throw error;
  }
}

/** Drops one update after the other, as dropping one may bring back an earlier one of the same tensor. */
function dropUpdates(updateGroup: UpdateGroup): void {
  for (;;) {
    const last = [...pending].findLast(([, { group }]) => group === updateGroup);
    if (last === undefined) break;
    const [node, { outcome }] = last;
    pending.delete(node);
    outcome.dropped?.();
  }
  updateGroup.dropped();
}

/** `replaced` is what was pending in its place. */
export function addPending(node: Node, outcome: Outcome = {}, replaced?: PendingWork): void {
  const depth = (replaced?.depth ?? 0) + 1;
  pending.set(node, { outcome, group: currentScope().updateGroup, depth });
  rankState.deepestPending = Math.max(rankState.deepestPending, depth);
}

/**
 * Whether uncomputed work has piled up that should be computed though nobody asks for it, as it holds the
 * inputs of all those steps.
 */
export function isPiledUp(): boolean {
  return rankState.deepestPending >= mostDepth && currentScope().updateGroup === null;
}

/** Returns what there was. */
export function removePending(node: Node): PendingWork | undefined {
  const work = pending.get(node);
  pending.delete(node);
  return work;
}

/** Hands over what is pending. */
export function takePending(): ReadonlyMap<Node, PendingWork> {
  const taken = new Map(pending);
  pending.clear();
  rankState.deepestPending = 0;
  return taken;
}

/**
 * Runs `body` and removes the work that it has added from the pending work. The caller must compute this work
 * and report its outcome, or drop it by `dropWork`.
 */
export function takingWork<T>(body: () => T): {
  readonly result: T;
  readonly work: ReadonlyMap<Node, PendingWork>;
} {
  const { deepestPending } = rankState;
  const before = takePending();
  try {
    const result = body();
    return { result, work: takePending() };
  } finally {
    takePending();
    restorePending(before);
    rankState.deepestPending = deepestPending;
  }
}

/** Gives up pending work. Tensors that it would update keep their values. */
export function dropWork(work: ReadonlyMap<Node, PendingWork>): void {
  const before = takePending();
  restorePending(work);
  try {
    for (;;) {
      const last = [...pending].at(-1);
      if (last === undefined) break;
      const [node, { outcome }] = last;
      pending.delete(node);
      // This may bring back an earlier update of the same tensor.
      outcome.dropped?.();
    }
  } finally {
    restorePending(before);
  }
}

/** Puts back what a realization took and did not compute. */
export function restorePending(work: Iterable<readonly [Node, PendingWork]>): void {
  for (const [node, entry] of work) if (!pending.has(node)) pending.set(node, entry);
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

/** Forgets everything: another rank begins in this thread. */
export function forgetPending(): void {
  takePending();
  released.clear();
}
