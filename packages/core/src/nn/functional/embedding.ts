import { indexSelect } from '../../graph/ops/index-ops.ts';
import { CallSite } from '../../graph/call-site.ts';
import { requireIndexDType } from '../../graph/infer-indices.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import { requireNoMore } from '../../tensor/check-calls.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { composed } from '../../realize/pending/small-values.ts';
import { requireShape } from './require-shape.ts';

/**
 * Takes rows of `weight`. The row `paddingIdx`, which counts from the end if it is below 0, gets no gradient. If an
 * index is out of range or negative, the run rejects with IndexError.
 * Shape: indices i32 N, weight [V, D] -> [N.., D].
 */
export function embedding(
  indices: Tensor,
  weight: Tensor,
  paddingIdx?: number,
  ...more: readonly never[]
): Tensor {
  requireNoMore('embedding', 3, more);
  requireIndexDType('embedding', indices);
  requireShape({ operation: 'embedding', name: 'weight', value: weight }, ['V', 'D']);
  const [count = 0, width = 0] = weight.shape;
  const padding = paddingIdx === undefined ? undefined : requirePadding(paddingIdx, count);
  return composed(() => {
    const flat = indices.flatten();
    const rows = new Tensor(indexSelect(weight.node, 0, flat.node, new CallSite('embedding')));
    const result =
      padding === undefined ? rows : flat.eq(padding).unsqueeze(1).where(rows.detach(), rows);
    return result.reshape([...indices.shape, width]);
  });
}

function requirePadding(paddingIdx: number, rows: number): number {
  const rule = option.required(option.integer(-rows, rows - 1));
  checkOptions('embedding', { paddingIdx }, { paddingIdx: rule });
  return paddingIdx < 0 ? paddingIdx + rows : paddingIdx;
}
