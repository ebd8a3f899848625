import { computeDType } from '../base/dtype-kind.ts';
import { sizeAt } from '../base/shape.ts';
import type { Shape, ValueType } from '../spec/dtype.ts';
import { attentionLimits, type AttentionOp } from '../base/attention-dims.ts';
import type { AttentionParams } from '../spec/op.ts';
import { at, floats, requireDType, requireSameDType, shapeFault } from './infer-checks.ts';

export function attentionShape(params: AttentionParams, inputs: readonly ValueType[]): ValueType {
  requireFit('attention', params, inputs);
  const [q, v] = [at(inputs, 0), at(inputs, 2)];
  return { shape: [...q.shape.slice(0, 3), sizeAt(v.shape, 3)], dtype: v.dtype };
}

export function attentionLogSumExpShape(
  params: AttentionParams,
  inputs: readonly ValueType[],
): ValueType {
  requireFit('attentionLogSumExp', params, inputs);
  const q = at(inputs, 0);
  return { shape: q.shape.slice(0, 3), dtype: computeDType(q.dtype) };
}

/** The shape and dtype of the gradient of input `index`. */
export const attentionGradShape =
  (op: AttentionOp, index: 0 | 1 | 2) =>
  (params: AttentionParams, inputs: readonly ValueType[]): ValueType => {
    requireFit(op, params, inputs);
    return at(inputs, index);
  };

function requireFit(op: AttentionOp, params: AttentionParams, inputs: readonly ValueType[]): void {
  const [q, k] = [at(inputs, 0), at(inputs, 1)];
  const v = op === 'attentionLogSumExp' ? k : at(inputs, 2);
  const [dy, ...ofRows] = op.endsWith('Grad') ? inputs.slice(3, 6) : [];
  const { mask, ranges } = attentionLimits(op, params, inputs);
  requireDType(op, q, floats);
  requireSameDType(op, [q, k, v]);
  for (const added of [dy, mask]) if (added) requireDType(op, added, floats);
  if (ranges) requireDType(op, ranges, ['i32']);
  const [batch = 0, heads = 0, queries = 0, width = 0] = q.shape;
  const [items = 0, groups = 0, keys = 0] = k.shape;
  const [, , , valueWidth = 0] = v.shape;
  const rows = [batch, heads, queries];
  const fits =
    isShape(q, [...rows, width]) &&
    width !== 0 &&
    isShape(k, [items === 1 ? 1 : batch, groups, keys, width]) &&
    (groups === 0 ? heads === 0 : heads % groups === 0) &&
    isShape(v, [items, groups, keys, valueWidth]) &&
    (!dy || isShape(dy, [...rows, valueWidth])) &&
    ofRows.every((numbers) => isShape(numbers, rows)) &&
    (!mask || isShape(mask, [...oneOr(mask, rows), keys])) &&
    (!ranges || isShape(ranges, [...oneOr(ranges, [batch]), queries, 2]));
  if (fits) return;
  throw shapeFault(
    op,
    inputs,
    'inputs that do not fit each other',
    'Use q, dy [B, H, T, D or E], k, v [B or 1, G, S, D or E] with H a multiple of G, a mask [B, H, T, S] and ranges [B, T, 2], or sizes of 1',
  );
}

/** The sizes, or 1 where a value has 1. */
function oneOr({ shape }: ValueType, sizes: Shape): Shape {
  return sizes.map((size, dim) => (shape[dim] === 1 ? 1 : size));
}

function isShape({ shape }: ValueType, expected: Shape): boolean {
  return (
    shape.length === expected.length && shape.every((size, dim) => Object.is(size, expected[dim]))
  );
}
