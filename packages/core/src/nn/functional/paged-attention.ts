import { isHalfDType } from '../../spec/dtype.ts';
import { createNode } from '../../graph/create-node.ts';
import { attentionOps } from '../../graph/ops/attention.ts';
import { Tensor } from '../../tensor/tensor.ts';

/** What queries see of the keys and values of a cache in blocks. */
export interface PagedKeys {
  /** The keys of each block, in any float dtype. Shape: [N, P, G, D]. */
  readonly keys: Tensor;
  /** Shape: [N, P, G, E]. */
  readonly values: Tensor;
  /** The numbers of the blocks of each item, in the order of its keys. Shape: i32 [B, M]. */
  readonly table: Tensor;
  /** Which keys of its item each query sees: from the first up to the second number. Shape: i32 [B, T, 2]. */
  readonly ranges: Tensor;
}

/**
 * Attention whose keys and values lie in blocks. WebGPU and devices with a kernel for it read them there, also those that
 * are cast from fewer bits. Others copy the blocks of each item behind each other. `scale` is 1 / sqrt(D) if it is not given. With
 * queries of 16 bits, weights are rounded to their dtype, as in `attention`, and so is the result.
 * Shape: q [B, H, T, D] -> [B, H, T, E]. Throws ShapeError and DTypeError for tensors that do not fit.
 */
export function pagedAttention(q: Tensor, paged: PagedKeys, scale?: number): Tensor {
  const { keys, values, table, ranges } = paged;
  const { dtype } = q;
  const rounding = isHalfDType(dtype) ? dtype : 'none';
  const computed = isHalfDType(dtype) ? 'f32' : dtype;
  const operands = [q, keys, values].map((operand) => operand.to(computed).node);
  const params = { scale: scale ?? 1 / Math.sqrt(q.shape[3] ?? 1), rounding } as const;
  const inputs = [...operands, table.node, ranges.node];
  const node = createNode(attentionOps.pagedAttention, 'pagedAttention', params, inputs);
  return new Tensor(node).to(dtype);
}
