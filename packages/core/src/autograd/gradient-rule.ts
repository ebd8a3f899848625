import type { Node } from '../graph/node.ts';
import type { Op } from '../spec/op.ts';

/**
 * Makes, from a node and the gradient of its output, the gradients of its inputs. Null for an input to which no
 * gradient flows. `output` is the node that the backward pass reads in the place of the node's value.
 */
export type GradientRule<K extends Op> = (
  node: Node<K>,
  gradient: Node,
  output: Node,
) => readonly (Node | null)[];
