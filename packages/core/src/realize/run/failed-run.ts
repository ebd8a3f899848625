import { newWalk } from '../../graph/create-node.ts';
import { placeOf } from '../../graph/call-site.ts';
import type { Node } from '../../graph/node.ts';
import { formatShape } from '../../base/shape.ts';
import { TensorStateError } from '../../spec/errors.ts';
import { collect } from '../collect/collect.ts';
import type { PendingWork, UpdateGroup } from '../pending/pending-work.ts';
import type { PlanFailure } from '../plan/execution-plan.ts';
import type { RunFailure } from './run-failure.ts';

/** Whether a node needs a value that is no longer there. */
export function isUnreadable(node: Node): boolean {
  try {
    collect([node]);
    return false;
  } catch {
    return true;
  }
}

/** Returns a function that says whether a node of the run's subgraph depends on a value that failed. */
export function taintedBy({ numbering, values: failed }: PlanFailure | RunFailure) {
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
export function unrelatedTo(
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
export function goneWith(
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
export function isInPart(
  gone: ReadonlySet<Node>,
  pending: ReadonlyMap<Node, PendingWork>,
): boolean {
  const groups = groupsOf(gone, pending);
  return [...pending].some(
    ([node, { group }]) => group !== null && groups.has(group) && !gone.has(node),
  );
}

/**
 * Gives up nodes whose run failed before it changed anything. Reading one of them throws `error` again. The values that
 * they were to replace are as before.
 */
export function giveUp(
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

/** The error of a rank some of whose tensors are updated and others not. `unrelated` is the result of `unrelatedTo`. */
export function halfUpdated(cause: unknown, unrelated: string | null): TensorStateError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  if (unrelated !== null) {
    return new TensorStateError(
      {
        asked: 'to compute tensors on this rank',
        found: `${unrelated} failed in a run that also made updates which were pending, and some or all of these were made before (${reason})`,
        todo: 'Await updates before you read other values: await optimizer.step(), or await tensor.realize(). End this rank, and start again from a checkpoint, as `shardwise run --max-restarts` does',
      },
      { failed: unrelated },
      { cause },
    );
  }
  return new TensorStateError(
    {
      asked: 'to compute tensors on this rank',
      found: `a run failed when it had updated some tensors in place and others not (${reason})`,
      todo: 'End this rank, and start again from a checkpoint, as `shardwise run --max-restarts` does',
    },
    {},
    { cause },
  );
}
