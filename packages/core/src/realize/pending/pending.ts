import type { Node } from '../../graph/node.ts';
import { noteUse, withCollectiveOrder } from '../../graph/program-order.ts';
import { freeNode } from '../../graph/ownership.ts';
import { currentScope, rankState, within } from '../../ambient.ts';
import type { Outcome, PendingWork, UpdateGroup } from './pending-work.ts';

/** Pending work is computed without being asked for beyond so many updates of one leaf, or additions to one gradient. */
const FLUSH_DEPTH = 64;

// Pending nodes must be computed by the next realization, whichever node is asked for. They are losses and gradients
// after backward(), and parameters after an update. Otherwise a later read would compute the step again.

/**
 * The updates that `body` adds are either all computed or all dropped. They are also dropped if `body` throws.
 * `dropped` is called when they are dropped.
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

/** Drops the updates of a group one by one, because dropping one may bring back an earlier one of the same tensor. */
function dropUpdates(updateGroup: UpdateGroup): void {
  const { pending } = rankState;
  for (;;) {
    const last = [...pending].findLast(([, { group }]) => group === updateGroup);
    if (last === undefined) break;
    const [node, { outcome }] = last;
    pending.delete(node);
    outcome.dropped?.();
  }
  updateGroup.dropped();
}

/** Adds pending work. `replaced` is the pending work that it replaces. */
export function addPending(node: Node, outcome: Outcome = {}, replaced?: PendingWork): void {
  if (node.isUnused) noteUse(node);
  const depth = (replaced?.depth ?? 0) + 1;
  rankState.pending.set(node, { outcome, group: currentScope().updateGroup, depth });
  rankState.deepestPending = Math.max(rankState.deepestPending, depth);
}

/**
 * Whether so much pending work has piled up that it should be computed unasked, because it keeps the inputs of all its
 * steps alive.
 */
export function isPiledUp(): boolean {
  return rankState.deepestPending >= FLUSH_DEPTH && currentScope().updateGroup === null;
}

/** Removes the pending work of a node, and returns it. */
export function removePending(node: Node): PendingWork | undefined {
  const { pending } = rankState;
  const work = pending.get(node);
  pending.delete(node);
  return work;
}

/** Returns all pending work, and leaves none pending. */
export function takePending(): ReadonlyMap<Node, PendingWork> {
  const { pending } = rankState;
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
    // The caller also gives the collectives their order, and may run them again.
    const result = withCollectiveOrder('apart', body);
    return { result, work: takePending() };
  } finally {
    takePending();
    restorePending(before);
    rankState.deepestPending = deepestPending;
  }
}

/** Gives up pending work. Tensors that it would update keep their values. */
export function dropWork(work: ReadonlyMap<Node, PendingWork>): void {
  const { pending } = rankState;
  const before = takePending();
  restorePending(work);
  try {
    for (;;) {
      const last = [...pending].at(-1);
      if (last === undefined) break;
      const [node, { outcome }] = last;
      pending.delete(node);
      // The callback may bring back an earlier update of the same tensor.
      outcome.dropped?.();
    }
  } finally {
    restorePending(before);
  }
}

/** Puts back the pending work that a realization took and did not compute. */
export function restorePending(work: Iterable<readonly [Node, PendingWork]>): void {
  const { pending } = rankState;
  for (const [node, entry] of work) if (!pending.has(node)) pending.set(node, entry);
}

/** Frees a node's memory when the pending work has been computed. Errors of later reads name `by`. */
export function freeAfterRun(node: Node, by: string): void {
  removePending(node);
  rankState.released.set(node, by);
}

/** Frees a node's memory when no collective that has not been issued can read it any more. */
export function freeWhenIssued(node: Node, by: string): void {
  (isAwaited() ? freeAfterRun : free)(node, by);
}

/**
 * Frees a node's memory when no pending work, and no collective that has not been issued, can read it any more. If
 * there is none, that is now.
 */
export function freeWhenRead(node: Node, by: string): void {
  (rankState.pending.size > 0 || isAwaited() ? freeAfterRun : free)(node, by);
}

/** Whether collectives, or runs that have taken pending work over, may still read values that are released. */
function isAwaited(): boolean {
  return rankState.unissued.size > 0 || rankState.runsQueued > 0;
}

function free(node: Node, by: string): void {
  if (node.value !== null) freeNode(node, by);
}

/** The nodes that have been released so far and not freed. */
export function releasedNow(): readonly Node[] {
  return [...rankState.released.keys()];
}

/**
 * Frees nodes that had been released when a run took the pending work over, unless collectives may read them. What was
 * released since then may be read by work that has become pending since then.
 */
export function freeReleased(nodes: readonly Node[]): void {
  if (isAwaited()) return;
  const { pending, released } = rankState;
  for (const node of pending.size === 0 ? released.keys() : nodes) {
    const by = released.get(node);
    if (by !== undefined) free(node, by);
    released.delete(node);
  }
}

/** Forgets all pending work and released nodes, because another rank begins in this thread. */
export function forgetPending(): void {
  takePending();
  rankState.runsQueued = 0;
  rankState.released.clear();
}
