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

/** Ops that a value takes along at most where nobody asked for it. */
const mostOwnOps = 64;

/**
 * Of `offered` it takes what the roots compute anyway, or what costs a few ops beside them. A run of
 * updates (a step) takes also what reads nothing but leaves, and collectives: its ranks have all built
 * the same, while another run may be one rank's alone. Throws TensorStateError where a value is needed
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

/** Whether a node can be computed beside what a walk has marked, at little cost. */
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
 * Numbers leaves in the order of first use and not of age: a leaf that one step makes anew and the next one
 * keeps (optimizer state) has the same place in the structure of both.
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
