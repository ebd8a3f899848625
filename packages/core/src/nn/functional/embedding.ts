import { indexSelect } from '../../graph/build/index-ops.ts';
import { CallSite } from '../../graph/call-site.ts';
import { requireIndexDType } from '../../graph/infer-indices.ts';
import { sizeAt } from '../../shape.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { composed } from '../../realize/small-values.ts';

/**
 * Rows of `weight`. The row `paddingIdx` gets no gradient. If an index is out of range, also if it is negative,
 * the run rejects with IndexError.
 * Shape: indices i32 N, weight [V, D] -> [N.., D].
 */
export function embedding(indices: Tensor, weight: Tensor, paddingIdx?: number): Tensor {
  requireIndexDType('embedding', indices);
  return composed(() => {
    const flat = indices.flatten();
    const rows = new Tensor(indexSelect(weight.node, 0, flat.node, new CallSite('embedding')));
    const result =
      paddingIdx === undefined ? rows : flat.eq(paddingIdx).unsqueeze(1).where(rows.detach(), rows);
    return result.reshape([...indices.shape, sizeAt(weight.shape, 1)]);
  });
}
