import { currentScope, inScope, rankState, type Scope } from '../ambient.ts';
import { withoutAutocast } from '../graph/autocast.ts';
import { newestNodeId, newWalk } from '../graph/create-node.ts';
import type { Node, Seeded } from '../graph/node.ts';
import { noteUse, orderInRules } from '../graph/program-order.ts';
import {
  checkGradientsNotUpdated,
  graphGivenUp,
  hasGivenUpGraph,
} from '../graph/updated-leaves.ts';
import { addPart, sumParts } from './sum-parts.ts';

export interface WalkOptions {
  /** Whether a gradient must reach this node. */
  readonly needs: (node: Node) => boolean;
  /** Whether the walk ends at this node and calls `onLeaf`. */
  readonly isLeaf: (node: Node) => boolean;
  /** Called first, with all leaves that the walk will come to. */
  readonly onStart?: (leaves: Iterable<Node>) => void;
  /** The gradients of a node's inputs. Null for an input to which no gradient flows. */
  readonly gradientsOf: (node: Node, gradient: Node) => readonly (Node | null)[];
  /** Called with the gradient of each node that the walk comes to. */
  readonly onGradient?: (node: Node, gradient: Node) => void;
  /** Called when the last use of a leaf has been visited, so in backward order. Null if no gradient flows to it. */
  readonly onLeaf: (leaf: Node, gradient: Node | null) => void;
}

/**
 * Reverse-mode differentiation from several outputs, whose gradients are summed. It visits nodes from the youngest to
 * the oldest and adds the nodes of the gradients to the graph. Throws TensorStateError if a gradient reads a value that
 * is no longer that of the forward pass.
 */
export function walkBackward(outputs: readonly Seeded[], options: WalkOptions): void {
  const olderId = newestNodeId();
  const { backwardFrom } = rankState;
  // A rule may walk through a decomposition, which begins no other backward pass.
  rankState.backwardFrom ??= outputs;
  try {
    withoutAutocast(() => walk(outputs, options));
  } finally {
    rankState.backwardFrom = backwardFrom;
  }
  rankState.observer?.backward(olderId);
}

function walk(outputs: readonly Seeded[], options: WalkOptions): void {
  const roots = [...new Set(outputs.map(({ output }) => output))];
  const { order, uses } = collect(roots, options);
  const unused = roots.filter((root) => options.isLeaf(root) && !uses.has(root));
  options.onStart?.([...unused, ...uses.keys()]);
  const contributions = new Map<Node, [Node, ...Node[]]>();
  const accumulate = (node: Node, part: Node): void => {
    const known = contributions.get(node);
    if (known === undefined) contributions.set(node, [part]);
    else addPart(known, part);
  };
  for (const { output, gradient } of outputs) accumulate(output, gradient);
  const takeGradient = (node: Node): Node | null => {
    const parts = contributions.get(node);
    contributions.delete(node);
    if (parts === undefined) return null;
    let gradient = sumParts(parts);
    for (const hook of node.gradientHooks ?? []) gradient = hook(gradient);
    options.onGradient?.(node, gradient);
    return gradient;
  };
  const finish = (leaf: Node): void => options.onLeaf(leaf, takeGradient(leaf));
  unused.forEach(finish);
  const ofRules = { ...currentScope(), collectiveOrder: orderInRules() };
  const scopeOfRule = ({ site }: Node): Scope => (site === null ? ofRules : { ...ofRules, site });
  for (const node of order) {
    if (!node.wasWalked) {
      node.wasWalked = true;
      for (const input of node.inputs) input.openUses--;
    }
    const gradient = takeGradient(node);
    const olderId = newestNodeId();
    const inputGradients =
      gradient === null
        ? []
        : inScope('a gradient', scopeOfRule(node), () => options.gradientsOf(node, gradient));
    checkGradientsNotUpdated(node, inputGradients, olderId);
    rankState.observer?.gradient(node, olderId);
    node.inputs.forEach((input, index) => {
      if (!options.needs(input)) return;
      const part = inputGradients[index] ?? null;
      // A rule also makes gradients that nobody needs. What only they read is not sent.
      if (part?.isUnused === true) noteUse(part);
      if (part !== null) accumulate(input, part);
      if (!options.isLeaf(input)) return;
      const left = (uses.get(input) ?? 0) - 1;
      uses.set(input, left);
      if (left === 0) finish(input);
    });
  }
}

/** Collects the inner nodes, youngest first, and the number of times that they use each leaf. */
function collect(
  roots: readonly Node[],
  options: WalkOptions,
): { order: Node[]; uses: Map<Node, number> } {
  const walk = newWalk();
  const order: Node[] = [];
  const uses = new Map<Node, number>();
  const stack: Node[] = [];
  const visit = (node: Node): void => {
    if (options.isLeaf(node) || node.mark === walk) return;
    if (hasGivenUpGraph(node)) throw graphGivenUp(node);
    node.mark = walk;
    order.push(node);
    stack.push(node);
  };
  roots.forEach(visit);
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    for (const input of node.inputs) {
      if (!options.needs(input)) continue;
      if (options.isLeaf(input)) uses.set(input, (uses.get(input) ?? 0) + 1);
      else visit(input);
    }
  }
  order.sort((a, b) => b.id - a.id);
  return { order, uses };
}
