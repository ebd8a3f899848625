import { elementCount, sizeAt } from '../../base/shape.ts';
import { requireDType } from '../../graph/infer-checks.ts';
import { createNode } from '../../graph/create-node.ts';
import { blockedOps } from '../../graph/ops/blocked.ts';
import { composed } from '../../realize/pending/small-values.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { codecOf, type DecodedFormat } from './block-codec.ts';

/**
 * x Wᵀ with a weight that stays in its blocks. Devices with code for the format decode some rows of the weight at a time,
 * into memory of a cache. Others decode the whole weight, and multiply then. The bits are the same. The weight takes no part
 * in gradients.
 * Shape: x [.., K], weight u8 [O, bytes of a row] -> [.., O]. Throws ShapeError, and DTypeError for an x that is not f32.
 */
export function blockedLinear(x: Tensor, weight: Tensor, format: DecodedFormat): Tensor {
  requireDType('blockedLinear', x.node, ['f32']);
  return composed(() => {
    const leading = x.shape.slice(0, -1);
    const rows = x.ndim === 2 ? x : x.reshape([elementCount(leading), sizeAt(x.shape, x.ndim - 1)]);
    const params = { format: codecOf(format) };
    const node = createNode(blockedOps.blockedLinear, 'blockedLinear', params, [
      rows.node,
      weight.node,
    ]);
    const result = new Tensor(node);
    return x.ndim === 2 ? result : result.reshape([...leading, sizeAt(weight.shape, 0)]);
  });
}
