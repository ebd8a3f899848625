import { noGrad } from '../graph/create-node.ts';
import type { Node, Seeded } from '../graph/node.ts';
import { withoutValues } from '../realize/pending/small-values.ts';
import { checkGradientTypes } from './check-gradient-types.ts';
import { endRecomputation, recomputing } from './recompute.ts';
import { gradientsOfNode } from './gradients-of-node.ts';
import { walkBackward } from './walk.ts';

/**
 * The gradients of a part of a model by the values with which it begins. `isFirst` says which values these are, in
 * addition to leaves. Leaves do not accumulate the gradients. Values of a checkpoint are recomputed. Values without
 * a gradient are not in the map.
 */
export function backwardTo(
  outputs: readonly Seeded[],
  isFirst: (node: Node) => boolean,
): ReadonlyMap<Node, Node> {
  const found = new Map<Node, Node>();
  const walk = (): void =>
    walkBackward(outputs, {
      needs: (node) => node.requiresGrad,
      isLeaf: (node) =>
        node.sink !== null || node.op === 'input' || node.op === 'assign' || isFirst(node),
      gradientsOf: recomputing(gradientsOfNode),
      onLeaf: (leaf, gradient) => {
        if (gradient === null) return;
        checkGradientTypes(leaf, gradient);
        found.set(leaf, gradient);
      },
    });
  try {
    withoutValues(() => noGrad(walk));
  } finally {
    endRecomputation();
  }
  return found;
}
