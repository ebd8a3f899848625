import type { Node } from '../src/graph/node.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

/** Returns the ops of the unrealized graph below a tensor. An op that occurs several times is listed several times. */
export function operationsOf(x: Tensor | null): string[] {
  const nodes = new Set<Node>(x === null ? [] : [x.node]);
  for (const node of nodes) for (const input of node.inputs) nodes.add(input);
  return [...nodes]
    .filter(({ value }) => value === null)
    .map(({ op }) => op)
    .toSorted();
}
