import { lowered as loweredNode } from '../../graph/ops/precision.ts';
import { Tensor } from '../../tensor/tensor.ts';

/** The operand of a product: inside autocast it is converted to the dtype of autocast. Shape: N -> N. */
export function lowered(x: Tensor): Tensor {
  const node = loweredNode(x.node);
  return node === x.node ? x : new Tensor(node);
}
