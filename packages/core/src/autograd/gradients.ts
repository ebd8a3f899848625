import { within } from '../ambient.ts';
import { add, mul } from '../graph/ops/elementwise.ts';
import type { Node, Seeded } from '../graph/node.ts';
import { TensorStateError } from '../spec/errors.ts';
import { constantLike } from '../graph/ops/leaf.ts';
import { allDims, sum } from '../graph/ops/movement.ts';
import { endRecomputation, recomputing } from './recompute.ts';
import { gradientsOfNode } from './gradients-of-node.ts';
import { walkBackward } from './walk.ts';

/**
 * The gradients of outputs by nodes that they are computed from, leaves or not. Null if no gradient flows. Leaves do
 * not accumulate gradients. With `createGraph` the gradients are differentiable in turn.
 */
export function gradientsBy(
  outputs: readonly Seeded[],
  inputs: readonly Node[],
  createGraph: boolean,
): (Node | null)[] {
  const found = new Map<Node, Node>();
  const targets = new Set(inputs);
  const { output, gradient } = within('grad', { isGradEnabled: true, autocast: null }, () =>
    together(outputs),
  );
  const walk = (): void => {
    const reaching = reachingNodes(output, targets);
    if (!reaching.has(output)) return;
    const isFirst = (node: Node): boolean => !node.inputs.some((input) => reaching.has(input));
    walkBackward([{ output, gradient }], {
      needs: (node) => reaching.has(node),
      isLeaf: (node) => node.op === 'assign' || (targets.has(node) && isFirst(node)),
      gradientsOf: createGraph ? withoutRegions : recomputing(gradientsOfNode),
      onGradient: (node, own) => {
        if (targets.has(node)) found.set(node, own);
      },
      onLeaf: () => {},
    });
  };
  try {
    within('grad', { isGradEnabled: createGraph, autocast: null }, walk);
  } finally {
    endRecomputation();
  }
  return inputs.map((input) => found.get(input) ?? null);
}

/** Makes one output of several: the sum of the products of each output and the gradient that it starts with. */
function together(outputs: readonly Seeded[]): Seeded {
  const [first, ...rest] = outputs;
  if (first === undefined) throw new RangeError('gradients of no outputs');
  if (rest.length === 0) return first;
  const terms = outputs.map(({ output, gradient }) => sum(mul(output, gradient), allDims(output)));
  const output = terms.reduce(add);
  return { output, gradient: constantLike(output, 1) };
}

/** The nodes through which gradients reach the targets. */
function reachingNodes(root: Node, targets: ReadonlySet<Node>): ReadonlySet<Node> {
  const seen = new Set([root]);
  for (const node of seen) {
    for (const input of node.inputs) if (input.requiresGrad) seen.add(input);
  }
  const reaching = new Set<Node>();
  for (const node of [...seen].toSorted((a, b) => a.id - b.id)) {
    if (targets.has(node) || node.inputs.some((input) => reaching.has(input))) reaching.add(node);
  }
  return reaching;
}

/** Refuses nodes of a checkpoint: recomputed values have no gradients, so a second derivative would lack a part. */
function withoutRegions(node: Node, gradient: Node): readonly (Node | null)[] {
  if (node.region === null && node.inputs.every(({ region }) => region === null)) {
    return gradientsOfNode(node, gradient);
  }
  throw new TensorStateError(
    {
      asked: 'gradients with createGraph, through a checkpoint',
      found: 'values that backward makes again, which have no gradients themselves',
      todo: 'Run that part of the model without checkpoint()',
    },
    { op: node.op },
  );
}
