import { widened as widenedNode } from '../../graph/ops/precision.ts';
import { Tensor } from '../../tensor/tensor.ts';

/** The operand of a loss: inside autocast, 16-bit values are converted to f32. Shape: N -> N. */
export function widened(x: Tensor): Tensor {
  const node = widenedNode(x.node);
  return node === x.node ? x : new Tensor(node);
}
