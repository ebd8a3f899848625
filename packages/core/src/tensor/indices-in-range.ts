import { gather } from '../graph/ops/index-ops.ts';
import { iota } from '../graph/ops/leaf.ts';
import { CallSite } from '../graph/call-site.ts';
import { requireIndexDType } from '../graph/infer-indices.ts';
import { Tensor } from './tensor.ts';

/**
 * Returns the indices unchanged, and checks them: a run with an index outside of 0 to `size` - 1 rejects with
 * IndexError. This is for code that reads only some of the indices, for example because other ranks have the rows.
 * `operation` is the operation that the user called. Throws DTypeError for indices that are not i32.
 * Shape: indices i32 N -> N.
 */
export function indicesInRange(indices: Tensor, size: number, operation: string): Tensor {
  requireIndexDType(operation, indices);
  const all = iota([size], 0);
  const found = gather(all, 0, indices.reshape([indices.numel]).node, new CallSite(operation));
  return new Tensor(found).reshape(indices.shape);
}
