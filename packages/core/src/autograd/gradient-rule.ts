import type { Node } from '../graph/node.ts';
import type { Op } from '../spec/op.ts';

/**
 * From a node and the gradient of its output to the gradients of its inputs; null where none flows.
 * `output` is what backward reads in the place of the node's value.
 */
export type GradientRule<K extends Op> = (
  node: Node<K>,
  gradient: Node,
  output: Node,
) => readonly (Node | null)[];
