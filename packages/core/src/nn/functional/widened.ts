import { widened as widenedNode } from '../../graph/build/precision.ts';
import { Tensor } from '../../tensor/tensor.ts';

/** What a loss is computed of: inside autocast f32 where it has 16 bits. Shape: N -> N. */
export function widened(x: Tensor): Tensor {
  const node = widenedNode(x.node);
  return node === x.node ? x : new Tensor(node);
}
