import { createNode, type Node } from '../node.ts';

/** torch.gather. Shape: x N, index i32 N' -> N'. */
export function gather(x: Node, dim: number, index: Node): Node {
  return createNode('gather', { dim }, [x, index]);
}

/** torch.scatter_add. Shape: x N, index i32 N', source N' -> N. */
export function scatterAdd(x: Node, dim: number, index: Node, source: Node): Node {
  return createNode('scatterAdd', { dim }, [x, index, source]);
}

/** torch.index_select. Shape: x [.., D, ..], index i32 [I] -> [.., I, ..]. */
export function indexSelect(x: Node, dim: number, index: Node): Node {
  return createNode('indexSelect', { dim }, [x, index]);
}

/** torch.index_add. Shape: x [.., D, ..], index i32 [I], source [.., I, ..] -> [.., D, ..]. */
export function indexAdd(x: Node, dim: number, index: Node, source: Node): Node {
  return createNode('indexAdd', { dim }, [x, index, source]);
}
