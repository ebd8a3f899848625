import { kindOf } from '../base/dtype-kind.ts';
import { formatShape } from '../base/shape.ts';
import { article } from '../graph/infer-checks.ts';
import type { Node } from '../graph/node.ts';
import { assign } from '../graph/ops/graph-ops.ts';
import { addPending, removePending, restorePending } from '../realize/pending/pending.ts';
import { DTypeError, TensorStateError } from '../spec/errors.ts';

/** Returns the leaf below the pending updates of a leaf. Throws TensorStateError for a tensor that is computed from others. */
export function leafOf(node: Node): Node {
  let leaf = node;
  while (leaf.op === 'assign' && leaf.inputs[0] !== undefined) leaf = leaf.inputs[0];
  if (leaf.op === 'input') return leaf;
  throw new TensorStateError(
    {
      asked: `to update a tensor computed by ${leaf.op} in place`,
      found: 'only leaves (tensors made from data) have contents',
      todo: 'Assign to a leaf',
    },
    { op: leaf.op },
  );
}

/** Returns a leaf and its pending update, if it has one. Throws TensorStateError for a tensor that is computed from others. */
export function trainableNodes(leaf: Node): readonly Node[] {
  if (leaf.op === 'input') return [leaf];
  if (leaf.op === 'assign') return [leaf, leafOf(leaf)];
  throw new TensorStateError(
    {
      asked: `requiresGrad_ on a tensor computed by ${leaf.op}`,
      found: 'only leaves (tensors made from data) collect gradients',
      todo: 'Call it on the leaf',
    },
    { op: leaf.op },
  );
}

/** Throws DTypeError for a tensor of integers. */
export function requireFloats({ dtype, shape }: Node): void {
  if (kindOf(dtype) === 'float') return;
  throw new DTypeError(
    {
      asked: `requiresGrad_ of ${article(dtype)} ${dtype} tensor of shape ${formatShape(shape)}`,
      found: 'only floats have gradients',
      todo: "Convert it with .to('f32') first",
    },
    { dtype },
  );
}

/**
 * Gives a leaf new contents at the next realization. `replace` puts one node in the place of another, if the tensor still
 * has that one: the update in the place of the leaf, and back if the update fails. Shape: target N, value N.
 */
export function updateLeaf(
  target: Node,
  value: Node,
  replace: (before: Node, after: Node) => void,
): void {
  const update = assign(target, value);
  const leaf = leafOf(target);
  leaf.resident = true;
  update.sink = leaf.sink;
  update.gradientHooks = leaf.gradientHooks;
  update.requiresGrad = leaf.requiresGrad;
  replace(target, update);
  const earlier = removePending(target);
  const outcome = {
    settled: () => {
      replace(update, leaf);
    },
    dropped: () => {
      replace(update, target);
      if (earlier !== undefined && target.value === null) restorePending([[target, earlier]]);
    },
  };
  addPending(update, outcome, earlier);
}
