import { kindOf, type DTypeKind } from '../base/dtype-kind.ts';
import type { DType } from '../spec/dtype.ts';

/** The properties of a tensor that promotion reads, or a number. */
export type PromotionOperand =
  | { readonly dtype: DType; readonly shape: readonly number[] }
  | number;

const rank: Readonly<Record<DTypeKind, number>> = { bool: 0, int: 1, float: 2 };

/** Within a kind, each dtype holds the values of those before it. */
const widening: readonly DType[] = ['u8', 'i32', 'i64', 'f32', 'f64'];

/**
 * The dtype that operands are promoted to, as PyTorch's torch.result_type. Tensors with dims decide. Tensors without
 * dims, and after them numbers, change the result only if they are of a higher kind (bool < int < float). A whole
 * number is like an int of Python, even if it is written 1.0, and stands for i32 where PyTorch has int64. Any other
 * number is like a float and stands for f32.
 */
export function resultDType(operands: readonly PromotionOperand[]): DType {
  let withDims: DType | undefined;
  let withoutDims: DType | undefined;
  let numbers: DType | undefined;
  for (const operand of operands) {
    if (typeof operand === 'number') {
      numbers = together(numbers, Number.isInteger(operand) ? 'i32' : 'f32');
    } else if (operand.shape.length > 0) withDims = together(withDims, operand.dtype);
    else withoutDims = together(withoutDims, operand.dtype);
  }
  return unlessHigher(unlessHigher(withDims, withoutDims), numbers) ?? 'f32';
}

/** Returns the first dtype, unless the other one is of a higher kind. */
function unlessHigher(dtype: DType | undefined, other: DType | undefined): DType | undefined {
  if (dtype === undefined || other === undefined) return dtype ?? other;
  return rank[kindOf(other)] > rank[kindOf(dtype)] ? other : dtype;
}

/** The dtype of two operands of the same priority. */
function together(a: DType | undefined, b: DType): DType {
  if (a === undefined || a === b) return b;
  if (kindOf(a) !== kindOf(b)) return rank[kindOf(a)] > rank[kindOf(b)] ? a : b;
  // f16 and bf16 do not hold each other's values, and they are not in the list: with another float they become f32 or
  // f64.
  return widening[Math.max(widening.indexOf(a), widening.indexOf(b))] ?? 'f32';
}
