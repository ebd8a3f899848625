import { rankState } from '../../ambient.ts';
import { newWalk } from '../../graph/create-node.ts';
import { placeOf } from '../../graph/call-site.ts';
import type { Node } from '../../graph/node.ts';
import { markFailed, markIssued } from '../../graph/program-order.ts';
import { formatShape } from '../../base/shape.ts';
import { collect, type Subgraph } from '../collect/collect.ts';
import { restorePending, takePending } from '../pending/pending.ts';
import type { PendingWork, UpdateGroup } from '../pending/pending-work.ts';
import { PlanFailure } from '../plan/execution-plan.ts';
import { RunFailure } from './run-failure.ts';

// The code for runs that fail. It is loaded when one does.

/** The work of a run that failed. */
interface FailedWork {
  readonly roots: readonly Node[];
  readonly pending: ReadonlyMap<Node, PendingWork>;
}

/** Refuses all further work of the rank, and returns the error. `unrelated` names what failed if no update depends on it. */
type Refuse = (cause: unknown, unrelated?: string | null) => unknown;

/** Keeps computed values, gives up what failed, and makes the rest pending again. Returns the error of the run. */
export function leaveFailedRun(
  { failure, cause }: { readonly failure: unknown; readonly cause: unknown },
  work: FailedWork,
  { computed, issued }: Subgraph,
  refuse: Refuse,
): unknown {
  const isRun = failure instanceof RunFailure;
  if (isRun && failure.updated) return refuse(cause, unrelatedTo(failure, work.roots, computed));
  // Nothing was computed if there was no memory to begin with.
  const isTainted = isRun || failure instanceof PlanFailure ? taintedBy(failure) : () => true;
  for (const node of issued) {
    if (isRun && failure.issued.has(node.slot)) markIssued(node);
    else if (isTainted(node)) markFailed(node, cause);
  }
  const roots = work.roots.filter(({ value }) => value === null);
  // A root may also need the result of a collective that was issued, and that the run had no time to use.
  const failed = [...new Set([...roots.filter(isTainted), ...unreadableOf(roots)])];
  return giveUpFailed(failed, { ...work, roots }, cause, refuse);
}

/** Gives up the roots that need a value which is no longer there. Returns the error. */
export function giveUpUnreadable(work: FailedWork, error: unknown, refuse: Refuse): unknown {
  return giveUpFailed(unreadableOf(work.roots), work, error, refuse);
}

/** `since` has what was made pending since the run began. Its own run says what is wrong with it. */
function giveUpFailed(
  failed: readonly Node[],
  { roots, pending }: FailedWork,
  error: unknown,
  refuse: Refuse,
  since: ReadonlySet<Node> = new Set(rankState.pending.keys()),
): unknown {
  const gone = goneWith(failed, roots, pending);
  if (isInPart(gone, pending)) return refuse(error);
  giveUp(gone, pending, error);
  for (const [node, { outcome }] of pending) {
    if (node.value !== null && node.value.kind !== 'failed') outcome.settled?.();
  }
  restorePending([...pending].filter(([node]) => node.value === null));
  giveUpBroughtBack(error, refuse, since);
  return error;
}

/** Gives up what came back in the place of what was dropped, as an earlier sum of a gradient does, if it cannot be computed either. */
function giveUpBroughtBack(error: unknown, refuse: Refuse, since: ReadonlySet<Node>): void {
  const pending = takePending();
  const roots = [...pending.keys()].filter((node) => node.value === null && !since.has(node));
  const unreadable = unreadableOf(roots);
  if (unreadable.length > 0) giveUpFailed(unreadable, { roots, pending }, error, refuse, since);
  else restorePending(pending);
}

/** Returns the nodes that need a value which is no longer there. */
function unreadableOf(nodes: readonly Node[]): readonly Node[] {
  const isUnreadable = (some: readonly Node[]): boolean => {
    try {
      collect(some);
      return false;
    } catch {
      return true;
    }
  };
  return isUnreadable(nodes) ? nodes.filter((node) => isUnreadable([node])) : [];
}

/** Returns a function that says whether a node of the run's subgraph depends on a value that failed. */
function taintedBy({ numbering, values: failed }: PlanFailure | RunFailure) {
  const { graph, ids } = numbering;
  const tainted = new Set(failed);
  for (const [id, { inputs }] of graph.values.entries()) {
    if (inputs.some((input) => tainted.has(input))) tainted.add(id);
  }
  return ({ slot }: Node): boolean => tainted.has(ids[slot] ?? -1);
}

/**
 * Names the call that made a run fail, if no update among the roots depends on it. Otherwise null. `computed` are the
 * nodes of the run's subgraph.
 */
function unrelatedTo(
  failure: RunFailure,
  roots: readonly Node[],
  computed: readonly Node[],
): string | null {
  const isTainted = taintedBy(failure);
  if (roots.some((root) => root.op === 'assign' && isTainted(root))) return null;
  const failed = computed.find(isTainted);
  if (failed === undefined) return null;
  const { site, op, shape } =
    computed.find((node) => node.site !== null && isTainted(node)) ?? failed;
  return site === null
    ? `${op} of shape ${formatShape(shape)}`
    : `${site.operation}${placeOf(site)}`;
}

/**
 * The nodes that must be given up because `failed` cannot be computed: `failed` itself, the other updates of their
 * groups that are not made yet, and all `roots` that read one of these nodes.
 */
function goneWith(
  failed: readonly Node[],
  roots: readonly Node[],
  pending: ReadonlyMap<Node, PendingWork>,
): ReadonlySet<Node> {
  const gone = new Set(failed);
  for (let before = -1; before < gone.size;) {
    before = gone.size;
    const groups = groupsOf(gone, pending);
    for (const [node, { group }] of pending) {
      if (group !== null && groups.has(group) && node.value === null) gone.add(node);
    }
    for (const root of roots) if (readsAny(root, gone)) gone.add(root);
  }
  return gone;
}

/** Whether the groups of the nodes in `gone` have other updates, which have been made already. */
function isInPart(gone: ReadonlySet<Node>, pending: ReadonlyMap<Node, PendingWork>): boolean {
  const groups = groupsOf(gone, pending);
  return [...pending].some(
    ([node, { group }]) => group !== null && groups.has(group) && !gone.has(node),
  );
}

/**
 * Gives up nodes whose run failed before it changed anything. Reading one of them throws `error` again. The values that
 * they were to replace are as before.
 */
function giveUp(
  gone: ReadonlySet<Node>,
  pending: ReadonlyMap<Node, PendingWork>,
  error: unknown,
): void {
  for (const node of gone) node.value = { kind: 'failed', error };
  const youngestFirst = [...gone].toSorted((a, b) => b.id - a.id);
  for (const node of youngestFirst) pending.get(node)?.outcome.dropped?.();
  for (const { dropped } of groupsOf(gone, pending)) dropped();
}

function groupsOf(
  nodes: Iterable<Node>,
  pending: ReadonlyMap<Node, PendingWork>,
): ReadonlySet<UpdateGroup> {
  const groups = new Set<UpdateGroup>();
  for (const node of nodes) {
    const group = pending.get(node)?.group;
    if (group !== undefined && group !== null) groups.add(group);
  }
  return groups;
}

function readsAny(root: Node, gone: ReadonlySet<Node>): boolean {
  const walk = newWalk();
  const stack = [root];
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    for (const input of node.inputs) {
      if (gone.has(input)) return true;
      if (input.mark === walk || input.value !== null) continue;
      input.mark = walk;
      stack.push(input);
    }
  }
  return false;
}
