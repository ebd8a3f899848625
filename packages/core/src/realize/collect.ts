import { newWalk, type Node } from '../graph/node.ts';
import { checkNotUpdated, targetOf } from '../graph/updated-leaves.ts';
import { formatShape } from '../shape.ts';
import { TensorStateError } from '../spec/errors.ts';

/** The unrealized part of the graph below some roots. Slots number leaves first, then computed nodes. */
export interface Subgraph {
  readonly leaves: readonly Node[];
  /** In program order. */
  readonly computed: readonly Node[];
}

/** Throws TensorStateError where a value is needed that is no longer there. */
export function collect(roots: readonly Node[]): Subgraph {
  const walk = newWalk();
  const computed: Node[] = [];
  const aliases: Node[] = [];
  const visit = (node: Node): void => {
    if (node.mark === walk) return;
    node.mark = walk;
    if (node.value === null) computed.push(node);
    else if (node.op === 'assign') aliases.push(node);
  };
  for (const root of roots) visit(root);
  for (let next = 0; next < computed.length; next++) {
    const node = computed[next];
    if (node === undefined) break;
    for (const input of node.inputs) {
      visit(input);
      if (input.value !== null) checkReadable(node, input);
    }
  }
  computed.sort((a, b) => a.id - b.id);
  const leaves = numberLeaves(roots, computed);
  let slot = leaves.length;
  for (const node of computed) node.slot = slot++;
  for (const alias of aliases) alias.slot = targetOf(alias).slot;
  return { leaves, computed };
}

/**
 * In the order of first use and not of age: a leaf that one step makes anew and the next one keeps
 * (optimizer state) has the same place in the structure of both.
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
  for (const node of computed) node.inputs.forEach(number);
  roots.forEach(number);
  return leaves;
}

function checkReadable(reader: Node, input: Node): void {
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
