import { computeDType } from '../base/dtype-kind.ts';
import { sizeAt } from '../base/shape.ts';
import type { Shape, ValueType } from '../spec/dtype.ts';
import { attentionLimits, type AttentionOp } from '../base/attention-dims.ts';
import type { ShapeError } from '../spec/errors.ts';
import type { AttentionParams, PagedAttentionParams } from '../spec/op.ts';
import { at, floats, requireDType, requireSameDType, shapeFault } from './infer-checks.ts';

export function attentionShape(params: AttentionParams, inputs: readonly ValueType[]): ValueType {
  requireFit('attention', params, inputs);
  return resultOf(inputs);
}

function resultOf(inputs: readonly ValueType[]): ValueType {
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
  const [batch = 0, , queries = 0] = q.shape;
  const fits =
    areHeads([q, k, v], k.shape.slice(0, 3), 2) &&
    isShape(table, [batch, table.shape[1] ?? 0]) &&
    isShape(ranges, [batch, queries, 2]);
  if (fits) return resultOf(inputs);
  throw unfit('pagedAttention', inputs, '[N, P, G, D], table [B, M]');
}

function requireFit(op: AttentionOp, params: AttentionParams, inputs: readonly ValueType[]): void {
  const [q, k] = [at(inputs, 0), at(inputs, 1)];
  const v = op === 'attentionLogSumExp' ? k : at(inputs, 2);
  const [dy, ...ofRows] = op.endsWith('Grad') ? inputs.slice(3, 6) : [];
  const { mask, ranges } = attentionLimits(op, params, inputs);
  requireSameDType(op, [q, k, v]);
  for (const each of [q, dy ?? q, mask ?? q]) requireDType(op, each, floats);
  if (ranges) requireDType(op, ranges, ['i32']);
  const [batch = 0, , queries = 0] = q.shape;
  const [items = 0, groups = 0, keys = 0] = k.shape;
  const rows = q.shape.slice(0, 3);
  const fits =
    areHeads([q, k, v], [items === 1 ? 1 : batch, groups, keys], 1) &&
    (!dy || isShape(dy, [...rows, v.shape[3] ?? 0])) &&
    ofRows.every((numbers) => isShape(numbers, rows)) &&
    (!mask || isShape(mask, [...oneOr(mask, rows), keys])) &&
    (!ranges || isShape(ranges, [...oneOr(ranges, [batch]), queries, 2]));
  if (!fits) throw unfit(op, inputs, '[B, G, S, D], mask [B, H, T, S]');
}

/** Whether q [B, H, T, D] fits k and v, whose sizes but that of features are `keys`, with the groups of heads in one of them. */
function areHeads(
  [q, k, v]: readonly [ValueType, ValueType, ValueType],
  keys: Shape,
  dim: number,
): boolean {
  const [, heads = 0, , width = 0] = q.shape;
  return (
    q.shape.length === 4 &&
    width !== 0 &&
    isShape(k, [...keys, width]) &&
    (heads === 0 || heads % sizeAt(keys, dim) === 0) &&
    isShape(v, [...keys, v.shape[3] ?? 0])
  );
}

function unfit(op: string, inputs: readonly ValueType[], keys: string): ShapeError {
  const todo = `Use q [B, H, T, D], k, v ${keys}, ranges [B, T, 2], H a multiple of G`;
  return shapeFault(op, inputs, 'shapes that do not fit', todo);
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
