import { computeDType } from '../base/dtype-kind.ts';
import { sizeAt } from '../base/shape.ts';
import type { Shape, ValueType } from '../spec/dtype.ts';
import { attentionLimits, type AttentionOp } from '../base/attention-dims.ts';
import type { AttentionParams, PagedAttentionParams } from '../spec/op.ts';
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
  (index: 0 | 1 | 2) =>
  (params: AttentionParams, inputs: readonly ValueType[], op: AttentionOp): ValueType => {
    requireFit(op, params, inputs);
    return at(inputs, index);
  };

export function pagedAttentionShape(
  _: PagedAttentionParams,
  inputs: readonly ValueType[],
): ValueType {
  const [q, k, v] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
  const [table, ranges] = [at(inputs, 3), at(inputs, 4)];
  requireSameDType('pagedAttention', [q, k, v]);
  requireDType('pagedAttention', q, ['f32', 'f64']);
  for (const each of [table, ranges]) requireDType('pagedAttention', each, ['i32']);
  const [batch = 0, heads = 0, queries = 0, width = 0] = q.shape;
  const [blocks = 0, blockSize = 0, groups = 0] = k.shape;
  const [, , , valueWidth = 0] = v.shape;
  const fits =
    isShape(q, [batch, heads, queries, width]) &&
    width !== 0 &&
    isShape(k, [blocks, blockSize, groups, width]) &&
    isShape(v, [blocks, blockSize, groups, valueWidth]) &&
    (heads === 0 || heads % groups === 0) &&
    isShape(table, [batch, table.shape[1] ?? 0]) &&
    isShape(ranges, [batch, queries, 2]);
  if (fits) return { shape: [batch, heads, queries, valueWidth], dtype: v.dtype };
  throw shapeFault(
    'pagedAttention',
    inputs,
    'shapes that do not fit',
    'Use q [B, H, T, D], k, v [N, P, G, D], table [B, M], ranges [B, T, 2], H a multiple of G',
  );
}

function requireFit(op: AttentionOp, params: AttentionParams, inputs: readonly ValueType[]): void {
  const [q, k] = [at(inputs, 0), at(inputs, 1)];
  const v = op === 'attentionLogSumExp' ? k : at(inputs, 2);
  const [dy, ...ofRows] = op.endsWith('Grad') ? inputs.slice(3, 6) : [];
  const { mask, ranges } = attentionLimits(op, params, inputs);
  requireSameDType(op, [q, k, v]);
  for (const each of [q, dy ?? q, mask ?? q]) requireDType(op, each, floats);
  if (ranges) requireDType(op, ranges, ['i32']);
  const [batch = 0, heads = 0, queries = 0, width = 0] = q.shape;
  const [items = 0, groups = 0, keys = 0] = k.shape;
  const rows = [batch, heads, queries];
  const fits =
    isShape(q, [...rows, width]) &&
    width !== 0 &&
    isShape(k, [items === 1 ? 1 : batch, groups, keys, width]) &&
    (heads === 0 || heads % groups === 0) &&
    isShape(v, [items, groups, keys, v.shape[3] ?? 0]) &&
    (!dy || isShape(dy, [...rows, v.shape[3] ?? 0])) &&
    ofRows.every((numbers) => isShape(numbers, rows)) &&
    (!mask || isShape(mask, [...oneOr(mask, rows), keys])) &&
    (!ranges || isShape(ranges, [...oneOr(ranges, [batch]), queries, 2]));
  if (fits) return;
  throw shapeFault(
    op,
    inputs,
    'shapes that do not fit',
    'Use q [B, H, T, D], k, v [B, G, S, D], mask [B, H, T, S], ranges [B, T, 2], H a multiple of G',
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
