import { createNode } from '../create-node.ts';
import { none, type Node } from '../node.ts';

/** Multiplies the rows of each group by its matrix. Shape: x [N, K], w [G, K, M], counts i32 [G] -> [N, M]. */
export function groupedMatmul(x: Node, w: Node, counts: Node, transposeB = false): Node {
  return createNode('groupedMatmul', { transposeB }, [x, w, counts]);
}

/** Shape: a [N, K], b [N, M], counts i32 [G] -> [G, K, M]. */
export function groupedMatmulWeight(a: Node, b: Node, counts: Node): Node {
  return createNode('groupedMatmulWeight', none, [a, b, counts]);
}
