import { axisFault, describe } from '../graph/axis-faults.ts';
import { unset } from '../graph/axis-types.ts';
import type { Node } from '../graph/node.ts';

/** Losses that were checked, with the axes. All leaves of a model ask for the same axes. */
const checked = new WeakMap<Node, readonly string[]>();

/**
 * Throws LayoutError if the ranks of one of these axes do not share one loss. Each rank would start a gradient of its
 * own, and all of them would be added up.
 */
export function checkLossTypes(loss: Node, axes: readonly string[]): void {
  if (checked.get(loss) === axes) return;
  for (const axis of axes) {
    const source = sourceOf(loss, axis);
    if (source === undefined) continue;
    throw axisFault({
      op: 'backward()',
      axis,
      inputs: [source],
      of: `from ${source === loss ? '' : 'a loss made of '}${describe(source, axis)}`,
      found: `the ranks of '${axis}' train by one loss, and the gradients of as many losses as there are ranks would be added up`,
      todo:
        typeOn(source, axis) === 'replicate'
          ? `Give the collective that brings all ranks the same value { to: 'invariant' }, as allGather(x, '${axis}', dim, { to: 'invariant' })`
          : `Have the last module return all of its output (output: 'invariant'), use vocabParallelCrossEntropy() for logits in parts, or add up the losses of the ranks: allReduce(loss, '${axis}', { to: 'invariant' })`,
    });
  }
  checked.set(loss, axes);
}

/**
 * The value from which the loss has a type other than one value for all ranks. If the loss has no type itself, because
 * it was also made of data without a type, it is searched among the values that the loss is made of.
 */
function sourceOf(loss: Node, axis: string): Node | undefined {
  const seen = new Set([loss]);
  for (const node of seen) {
    const type = typeOn(node, axis);
    if (type === 'varying' || type === 'replicate' || type === 'partial') return node;
    if (type !== 'unset') continue;
    for (const input of node.inputs) if (input.requiresGrad) seen.add(input);
  }
  return undefined;
}

function typeOn(node: Node, axis: string): string {
  return (node.axisTypes ?? unset).on(axis);
}
