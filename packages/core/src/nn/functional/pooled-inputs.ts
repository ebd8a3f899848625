import { rankState } from '../../ambient.ts';
import type { Node } from '../../graph/node.ts';
import type { Tensor } from '../../tensor/tensor.ts';

/** The numbers of elements of the inputs of functions that pool, by their results. */
const inputs = new WeakMap<Node, number>();

/** Remembers what a function has pooled, while a profiler observes the graph. */
export function notePool(output: Tensor, { contents, numel }: Tensor): void {
  // A pool of windows of one element returns its input.
  if (rankState.observer !== null && output.contents !== contents)
    inputs.set(output.contents, numel);
}

/** Says that `copy` computes a node again. */
export function noteCopy(node: Node, copy: Node): void {
  const pooled = inputs.get(node);
  if (pooled !== undefined) inputs.set(copy, pooled);
}

/** The elements of the input of a pool. Undefined: the node is the result of none. */
export function pooledBy(node: Node): number | undefined {
  return inputs.get(node);
}
