import type { Unissued } from '../graph/collective-order.ts';
import type { Node } from '../graph/node.ts';
import { targetOf } from '../graph/updated-leaves.ts';

/** What a run computes, and what is known of the collectives that it issues. */
export interface IssuingRun {
  /** In program order. */
  readonly computed: readonly Node[];
  /** The nodes whose values are kept in any case. */
  readonly outputs: ReadonlySet<Node>;
  readonly unissued: ReadonlyMap<Node, Unissued>;
}

/**
 * The nodes besides `outputs` whose values a run keeps, so that no later run needs the collectives again that this run
 * issues: each is issued once.
 *
 * - A step keeps the results of the program's own collectives. Whatever read the old parameters cannot be read after it.
 * - Otherwise, results are kept as activations are, because a backward pass may come to them. Parameters that were
 *   gathered for a forward pass are gathered again in the backward pass. They are not kept, but what was computed from
 *   them is. A pass without gradients keeps nothing, because all its results are computed in this run.
 */
export function keptResults(run: IssuingRun, updates: readonly Node[]): readonly Node[] {
  return updates.length > 0 ? keptByStep(run, updates) : keptByRead(run);
}

function keptByStep(
  { computed, outputs, unissued }: IssuingRun,
  updates: readonly Node[],
): readonly Node[] {
  const isStale = readsUpdated(updates);
  return computed.filter(
    (node) =>
      unissued.get(node)?.isOfProgram === true &&
      !isRemade(node) &&
      !outputs.has(node) &&
      !isStale(node),
  );
}

/** Returns a function that says whether a node reads a tensor that one of the `updates` changes after it. */
export function readsUpdated(updates: readonly Node[]): (node: Node) => boolean {
  const updatedAt = new Map<Node, number>();
  for (const update of updates) {
    const target = targetOf(update);
    updatedAt.set(target, Math.max(updatedAt.get(target) ?? 0, update.id));
  }
  const known = new Map<Node, boolean>();
  return (node) => {
    const stack = [node];
    for (let next = stack.at(-1); next !== undefined; next = stack.at(-1)) {
      const open = next.inputs.filter((input) => input.value === null && !known.has(input));
      if (open.length > 0 && !known.has(next)) {
        stack.push(...open);
        continue;
      }
      stack.pop();
      const { id, inputs } = next;
      const reads = (input: Node): boolean => {
        const leaf = input.op === 'assign' ? targetOf(input) : input;
        return known.get(input) === true || id < (updatedAt.get(leaf) ?? 0);
      };
      known.set(next, inputs.some(reads));
    }
    return known.get(node) === true;
  };
}

function keptByRead({ computed, outputs, unissued }: IssuingRun): readonly Node[] {
  const kept: Node[] = [];
  /** Nodes that would need a collective again, with the last id of the pass without gradients that they belong to. */
  const lost = new Map<Node, number>();
  const keep = (node: Node): void => {
    lost.delete(node);
    if (!outputs.has(node)) kept.push(node);
  };
  for (const node of computed) {
    const issued = unissued.get(node);
    if (issued !== undefined) {
      const { pass } = issued;
      if (outputs.has(node)) continue;
      if (pass !== null && !pass.isGradEnabled) lost.set(node, pass.lastId);
      else if (isRemade(node)) lost.set(node, 0);
      else keep(node);
      continue;
    }
    let needs = -1;
    for (const input of node.inputs) {
      const until = lost.get(input);
      if (until === undefined) continue;
      // A backward pass from this node reads its inputs.
      if (node.requiresGrad && !isRemade(input) && until < node.id) keep(input);
      else needs = Math.max(needs, until);
    }
    if (needs < 0 || outputs.has(node)) continue;
    lost.set(node, needs);
    const isOfPass = node.id <= needs;
    if (!isRemade(node) && !isOfPass && (node.requiresGrad || needs > 0)) keep(node);
  }
  return kept;
}

/** Whether the backward pass makes a node again, instead of reading its value. */
function isRemade(node: Node): boolean {
  return node.region?.remakes(node) ?? false;
}
