import { lowered as loweredNode } from '../../graph/build/precision.ts';
import { Tensor } from '../../tensor/tensor.ts';

/** What a product is computed of: inside autocast in its dtype. Shape: N -> N. */
export function lowered(x: Tensor): Tensor {
  const node = loweredNode(x.node);
  return node === x.node ? x : new Tensor(node);
}
