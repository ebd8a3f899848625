import type { Node } from '../graph/node.ts';
import type { Op } from '../spec/op.ts';

/** From a node and the gradient of its output to the gradients of its inputs; null where none flows. */
export type GradientRule<K extends Op> = (
  node: Node<K>,
  gradient: Node,
) => readonly (Node | null)[];
