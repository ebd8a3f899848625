import { isHalfDType } from '../../spec/dtype.ts';
import { createNode } from '../../graph/create-node.ts';
import { attention, attentionOps, throughTable } from '../../graph/ops/attention.ts';
import { Tensor } from '../../tensor/tensor.ts';

/** What queries see of the keys and values of a cache in blocks. */
export interface PagedKeys {
  /** The keys of each block. Shape: [N, P, G, D]. */
  readonly keys: Tensor;
  /** Shape: [N, P, G, E]. */
  readonly values: Tensor;
  /** The numbers of the blocks of each item, in the order of its keys. Shape: i32 [B, M]. */
  readonly table: Tensor;
  /** Which keys of its item each query sees: from the first up to the second number. Shape: i32 [B, T, 2]. */
  readonly ranges: Tensor;
}

/**
 * Attention whose keys and values lie in blocks. WebGPU and devices with a kernel for it read them there. Others, and
 * those with such a kernel for 16 bits, copy the blocks of each item behind each other. `scale` is 1 / sqrt(D) if it is not given.
 * Shape: q [B, H, T, D] -> [B, H, T, E]. Throws ShapeError and DTypeError for tensors that do not fit.
 */
export function pagedAttention(q: Tensor, paged: PagedKeys, scale?: number): Tensor {
  const { keys, values, table, ranges } = paged;
  const params = { scale: scale ?? 1 / Math.sqrt(q.shape[3] ?? 1) };
  const { dtype } = q;
  if (!isHalfDType(dtype)) {
    const inputs = [q.node, keys.node, values.node, table.node, ranges.node];
    return new Tensor(createNode(attentionOps.pagedAttention, 'pagedAttention', params, inputs));
  }
  const [k, v] = [keys, values].map(({ node }) => throughTable(node, table.node));
  if (k === undefined || v === undefined) throw new RangeError('two operands give two');
  return new Tensor(
    attention({ ...params, causal: false, hasKeyRanges: true, rounding: dtype }, [
      q.node,
      k,
      v,
      ranges.node,
    ]),
  );
}
