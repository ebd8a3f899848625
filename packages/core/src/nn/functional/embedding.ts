import { sizeAt } from '../../shape.ts';
import type { Tensor } from '../../tensor/tensor.ts';

/**
 * Rows of `weight`. The row `paddingIdx` gets no gradient. Indices must be in range.
 * Shape: indices i32 N, weight [V, D] -> [N.., D].
 */
export function embedding(indices: Tensor, weight: Tensor, paddingIdx?: number): Tensor {
  const flat = indices.flatten();
  const rows = weight.indexSelect(0, flat);
  const result =
    paddingIdx === undefined ? rows : flat.eq(paddingIdx).unsqueeze(1).where(rows.detach(), rows);
  return result.reshape([...indices.shape, sizeAt(weight.shape, 1)]);
}
