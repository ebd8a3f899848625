import { computeDType } from '../base/dtype-kind.ts';
import { sizeAt } from '../base/shape.ts';
import type { Shape, ValueType } from '../spec/dtype.ts';
import { attentionMaskInput, type AttentionOp } from '../base/attention-dims.ts';
import type { AttentionParams } from '../spec/op.ts';
import { at, floats, requireDType, requireSameDType, shapeFault } from './infer-checks.ts';

export function attentionShape(params: AttentionParams, inputs: readonly ValueType[]): ValueType {
  const [q, k, v] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
  requireKeys('attention', inputs, [q, k]);
  requireValues('attention', inputs, [k, v]);
  requireMask('attention', params, inputs);
  return { shape: [...q.shape.slice(0, 3), sizeAt(v.shape, 3)], dtype: v.dtype };
}

export function attentionLogSumExpShape(
  params: AttentionParams,
  inputs: readonly ValueType[],
): ValueType {
  const [q, k] = [at(inputs, 0), at(inputs, 1)];
  requireKeys('attentionLogSumExp', inputs, [q, k]);
  requireMask('attentionLogSumExp', params, inputs);
  return { shape: q.shape.slice(0, 3), dtype: computeDType(q.dtype) };
}

/** The shape and dtype of the gradient of input `index`. */
export const attentionGradShape =
  (op: AttentionOp, index: 0 | 1 | 2) =>
  (params: AttentionParams, inputs: readonly ValueType[]): ValueType => {
    const [q, k, v] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
    const [dy, logSumExp, delta] = [at(inputs, 3), at(inputs, 4), at(inputs, 5)];
    requireKeys(op, inputs, [q, k]);
    requireValues(op, inputs, [k, v]);
    requireMask(op, params, inputs);
    requireDType(op, dy, floats);
    const rows = q.shape.slice(0, 3);
    const fits =
      isShape(dy.shape, [...rows, sizeAt(v.shape, 3)]) &&
      isShape(logSumExp.shape, rows) &&
      isShape(delta.shape, rows);
    if (!fits) {
      throw shapeFault(
        op,
        inputs,
        'a gradient, or numbers of its rows, that do not fit the queries',
        'Use dy [B, H, T, E], logSumExp [B, H, T] and delta [B, H, T]',
      );
    }
    return at(inputs, index);
  };

function isShape(shape: Shape, expected: Shape): boolean {
  return (
    shape.length === expected.length && shape.every((size, dim) => Object.is(size, expected[dim]))
  );
}

function requireKeys(
  op: string,
  inputs: readonly ValueType[],
  [q, k]: readonly [ValueType, ValueType],
): void {
  requireDType(op, q, floats);
  requireSameDType(op, [q, k]);
  const [batch, heads = 0, , width] = q.shape;
  const [items, groups = 0, , keyWidth] = k.shape;
  const fits =
    q.shape.length === 4 &&
    k.shape.length === 4 &&
    (items === 1 || Object.is(items, batch)) &&
    (groups === 0 ? heads === 0 : heads % groups === 0) &&
    keyWidth === width &&
    width !== 0;
  if (fits) return;
  throw shapeFault(
    op,
    inputs,
    'queries and keys that do not fit each other',
    'Use q [B, H, T, D] and k [B or 1, G, S, D], with H a multiple of G',
  );
}

function requireValues(
  op: string,
  inputs: readonly ValueType[],
  [k, v]: readonly [ValueType, ValueType],
): void {
  requireSameDType(op, [k, v]);
  if (v.shape.length === 4 && isShape(v.shape.slice(0, 3), k.shape.slice(0, 3))) return;
  throw shapeFault(
    op,
    inputs,
    'keys and values that differ',
    'Use k [B or 1, G, S, D] and v [B or 1, G, S, E]',
  );
}

function requireMask(
  op: AttentionOp,
  { causal }: AttentionParams,
  inputs: readonly ValueType[],
): void {
  const mask = inputs[attentionMaskInput[op]];
  if (mask === undefined) return;
  requireDType(op, mask, floats);
  const [q, k] = [at(inputs, 0), at(inputs, 1)];
  const scores = [...q.shape.slice(0, 3), sizeAt(k.shape, 2)];
  const fits =
    !causal &&
    mask.shape.length === 4 &&
    Object.is(mask.shape[3], scores[3]) &&
    mask.shape.every((size, dim) => size === 1 || Object.is(size, scores[dim]));
  if (fits) return;
  throw shapeFault(
    op,
    inputs,
    causal ? 'a mask, and queries that see earlier keys alone' : 'a mask that does not fit',
    causal ? 'Add both masks' : 'Use a mask [B or 1, H or 1, T or 1, S]',
  );
}
