import { formatShape } from '../base/shape.ts';
import { TensorStateError } from '../spec/errors.ts';
import { placeOf } from './call-site.ts';
import { newWalk } from './create-node.ts';
import type { Node } from './node.ts';

/** The leaf whose memory an assign writes. */
export function targetOf(assign: Node): Node {
  const [target] = assign.inputs;
  if (target === undefined) throw new RangeError('assign without target');
  return target.op === 'assign' ? targetOf(target) : target;
}

/** Whether `input` was updated after `reader` was built from it. `reader` means the earlier contents. */
export function isUpdatedFor(reader: Node, input: Node): boolean {
  if (reader.op === 'assign' || input.value === null) return false;
  const leaf = input.op === 'assign' ? targetOf(input) : input;
  return reader.id < leaf.updatedAt;
}

/** Throws TensorStateError if `reader` needs contents of `input` that an update has overwritten. */
export function checkNotUpdated(reader: Node, input: Node): void {
  if (!isUpdatedFor(reader, input)) return;
  throw new TensorStateError(
    {
      asked: `${reader.op}${placeOf(reader.site)}, of a tensor of shape ${formatShape(input.shape)}`,
      found:
        'the tensor was updated in place after the expression was written and before it was computed',
      todo: 'Call retain() on the expression, so that the update computes it too, or write it after the update',
    },
    { op: reader.op, shape: input.shape },
  );
}

/**
 * Throws TensorStateError if one of `gradients` reads an input of `node` that was updated since the forward pass. The
 * gradients were made after `olderId` for a backward pass through `node`.
 */
export function checkGradientsNotUpdated(
  node: Node,
  gradients: readonly (Node | null)[],
  olderId: number,
): void {
  const updated = node.inputs.filter((input) => isUpdatedFor(node, input));
  if (updated.length === 0) return;
  const made = new Set(gradients.filter((gradient) => gradient !== null));
  for (const gradient of made) {
    for (const input of gradient.inputs) {
      if (updated.includes(input)) throw updatedBeforeBackward(node, input);
      if (input.id > olderId) made.add(input);
    }
  }
}

/** Whether a node has given up its graph. A backward pass that comes to it then fails. */
export function hasGivenUpGraph({ value, inputs, op }: Node): boolean {
  return value !== null && inputs.length === 0 && op !== 'input';
}

/** Whether a backward pass from `root` would come to a node whose inputs were updated after it was built. */
export function dependsOnUpdated(root: Node): boolean {
  const walk = newWalk();
  const stack = [root];
  root.mark = walk;
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    for (const input of node.inputs) {
      if (isUpdatedFor(node, input)) return true;
      if (input.requiresGrad && hasGivenUpGraph(input)) return true;
      if (input.mark === walk) continue;
      input.mark = walk;
      stack.push(input);
    }
  }
  return false;
}

export function updatedBeforeBackward(node: Node, { shape }: Node): TensorStateError {
  return new TensorStateError(
    {
      asked: `backward() through ${node.op}${placeOf(node.site)}, with a tensor of shape ${formatShape(shape)}`,
      found: 'the tensor was updated in place after the forward pass, as by an optimizer’s step()',
      todo: 'Call backward() of all losses before step(), or build the loss again after it',
    },
    { op: node.op, shape },
  );
}

/** The error for a node that gave up its graph when a tensor of that graph was updated. */
export function graphGivenUp({ op, shape, site }: Node): TensorStateError {
  return new TensorStateError(
    {
      asked: `backward() through ${op}${placeOf(site)}, of shape ${formatShape(shape)}`,
      found:
        'its graph is gone, as tensors of it were updated in place after it was computed, as by an optimizer’s step()',
      todo: 'Call backward() of all losses before step(), or build the loss again after it',
    },
    { op, shape },
  );
}
