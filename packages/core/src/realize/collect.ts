import { newWalk } from '../graph/create-node.ts';
import type { Node } from '../graph/node.ts';
import { isTransferOp, opFacts } from '../graph/op-facts.ts';
import { checkNotUpdated, isUpdatedFor, targetOf } from '../graph/updated-leaves.ts';
import { formatShape } from '../shape.ts';
import { TensorStateError } from '../spec/errors.ts';

/** The unrealized part of the graph below some roots. Slots number leaves first, then computed nodes. */
export interface Subgraph {
  readonly leaves: readonly Node[];
  /** The nodes to compute, in program order. */
  readonly computed: readonly Node[];
  /** The nodes among those offered that are computed with the roots. */
  readonly taken: readonly Node[];
}

/** The largest number of additional ops for which an offered value is computed with the roots. */
const mostOwnOps = 64;

/**
 * Collects what the roots need. Of `offered` it takes the nodes that the roots need anyway, or that cost a few ops
 * besides. A run with updates (a step) also takes nodes that only read leaves, and collectives: all ranks have built
 * the same step, while any other run may be one of a single rank. Throws TensorStateError if a value is needed
 * that is no longer there.
 */
export function collect(roots: readonly Node[], offered: Iterable<Node> = []): Subgraph {
  const walk = newWalk();
  const computed: Node[] = [];
  const aliases: Node[] = [];
  const visit = (node: Node): void => {
    if (node.mark === walk) return;
    node.mark = walk;
    if (node.value === null) computed.push(node);
    else if (node.op === 'assign') aliases.push(node);
  };
  let visited = 0;
  const visitInputs = (): void => {
    for (; visited < computed.length; visited++) {
      const node = computed[visited];
      for (const input of node?.inputs ?? []) {
        visit(input);
        if (node !== undefined && input.value !== null) checkReadable(node, input);
      }
      if (node !== undefined && node.rowCount !== null) visit(node.rowCount.count);
    }
  };
  roots.forEach(visit);
  visitInputs();
  const isStep = roots.some(({ op }) => op === 'assign');
  const taken: Node[] = [];
  const asked = new Set(roots);
  for (const node of offered) {
    if (asked.has(node) || node.value !== null || !isNear(node, walk, isStep)) continue;
    visit(node);
    visitInputs();
    taken.push(node);
  }
  computed.sort((a, b) => a.id - b.id);
  const leaves = numberLeaves(roots, computed);
  let slot = leaves.length;
  for (const node of computed) node.slot = slot++;
  for (const alias of aliases) alias.slot = targetOf(alias).slot;
  return { leaves, computed, taken };
}

/** Whether a node can be computed at little cost together with the nodes that a walk has marked. */
function isNear(node: Node, walk: number, isStep: boolean): boolean {
  const own = new Set([node]);
  let touches = false;
  for (const each of own) {
    if (each.mark === walk) {
      touches = true;
      continue;
    }
    if (own.size > mostOwnOps || each.op === 'assign' || isTransferOp(each.op)) return false;
    if (!isStep && opFacts[each.op].travels) return false;
    for (const input of each.inputs) {
      if (input.value === null) own.add(input);
      else if (!isReadable(each, input)) return false;
    }
  }
  return touches || isStep;
}

/**
 * Numbers leaves in the order of their first use, and not by age. A leaf that one step creates and the next one keeps,
 * such as an optimizer state, then has the same number in both steps.
 */
function numberLeaves(roots: readonly Node[], computed: readonly Node[]): Node[] {
  const walk = newWalk();
  const leaves: Node[] = [];
  const number = (node: Node): void => {
    if (node.value === null) return;
    const leaf = node.op === 'assign' ? targetOf(node) : node;
    if (leaf.mark === walk) return;
    leaf.mark = walk;
    leaf.slot = leaves.push(leaf) - 1;
  };
  for (const node of computed) {
    node.inputs.forEach(number);
    if (node.rowCount !== null) number(node.rowCount.count);
  }
  roots.forEach(number);
  return leaves;
}

function isReadable(reader: Node, input: Node): boolean {
  const kind = input.value?.kind;
  return kind !== 'failed' && kind !== 'freed' && !isUpdatedFor(reader, input);
}

function checkReadable(reader: Node, input: Node): void {
  if (input.value?.kind === 'failed') throw input.value.error;
  if (input.value?.kind === 'freed') {
    throw new TensorStateError(
      {
        asked: `${reader.op} of a tensor of shape ${formatShape(input.shape)}`,
        found: `its memory was freed by ${input.value.by}`,
        todo: 'Read it (await tensor.data()) before it is freed',
      },
      { op: reader.op, shape: input.shape },
    );
  }
  checkNotUpdated(reader, input);
}
