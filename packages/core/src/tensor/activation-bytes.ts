import { constantLike } from '../graph/ops/leaf.ts';
import { noGrad } from '../graph/create-node.ts';
import type { Node } from '../graph/node.ts';
import { ops } from '../graph/ops/ops.ts';
import { elementCount } from '../base/shape.ts';
import { dtypes } from '../spec/dtype.ts';
import type { TensorHandle } from './handle.ts';
import { endRecomputation, recomputing } from '../autograd/recompute.ts';
import { gradientsOfNode } from '../autograd/gradients-of-node.ts';
import { walkBackward } from '../autograd/walk.ts';

/**
 * The bytes of activations: values that the forward pass computes and that a backward pass from `loss` would read.
 * This is an estimate, because a backend can keep fewer by fusing operations. It computes nothing and leaves no
 * gradient. Build `loss` from a model before a strategy is applied to it.
 */
export function activationBytes(loss: TensorHandle): number {
  const root = loss.node;
  const gradients: Node[] = [];
  const firstId = firstIdOfBackward(root, gradients);
  let bytes = 0;
  const seen = new Set<Node>(gradients);
  for (const node of seen) {
    const { memory } = ops[node.op];
    if (node.id >= firstId) {
      for (const input of node.inputs) seen.add(input);
    } else if (memory === 'input') {
      // Only the first input is the value. Gradients do not read the others.
      for (const value of node.inputs.slice(0, 1)) seen.add(value);
    } else if (memory === 'own' && node.value === null) {
      bytes += elementCount(node.shape) * dtypes[node.dtype].bytes;
    }
  }
  return bytes;
}

/** Builds the nodes of a backward pass, and puts the gradients of leaves into `gradients`. Returns the first id. */
function firstIdOfBackward(root: Node, gradients: Node[]): number {
  try {
    return noGrad(() => {
      const seed = constantLike(root, 1);
      walkBackward([{ output: root, gradient: seed }], {
        needs: (node) => node.requiresGrad,
        isLeaf: (node) => node.sink !== null || node.op === 'input' || node.op === 'assign',
        gradientsOf: recomputing(gradientsOfNode),
        onLeaf: (_, gradient) => {
          if (gradient !== null) gradients.push(gradient);
        },
      });
      return seed.id;
    });
  } finally {
    endRecomputation();
  }
}
