import type { Node } from './node.ts';

/**
 * What a profiler is told of the graphs that a rank builds and runs. Ids ascend in program order, so ids say which nodes
 * were made in a pass. While nothing observes, a rank only looks whether something does.
 */
export interface GraphObserver {
  /** A backward pass has visited `node`. The gradients of its inputs are the nodes after `olderId`. */
  gradient(node: Node, olderId: number): void;
  /** A backward pass is over. Its nodes are those after `olderId`. */
  backward(olderId: number): void;
  /** A backward pass computes `node` again, as `copy`. */
  remade(node: Node, copy: Node): void;
  /** An optimizer has built a step. Its nodes are those after `olderId`. */
  update(olderId: number): void;
  /** A function that pools windows of `input` has built `output`, from several nodes. */
  pool(output: Node, input: Node): void;
  /** A run has computed these nodes, in program order. */
  run(nodes: readonly Node[]): void;
}
