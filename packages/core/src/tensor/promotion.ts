import { kindOf, type DTypeKind } from '../dtype.ts';
import type { DType } from '../spec/dtype.ts';

/** A tensor as far as promotion looks at it, or a number. */
export type PromotionOperand =
  | { readonly dtype: DType; readonly shape: readonly number[] }
  | number;

const rank: Readonly<Record<DTypeKind, number>> = { bool: 0, int: 1, float: 2 };

/** Within a kind, what holds the values of those before it. */
const widening: readonly DType[] = ['u8', 'i32', 'i64', 'f32', 'f64'];

/**
 * The dtype that operands have together: PyTorch's torch.result_type. Tensors with dims decide; those
 * without, and numbers after them, only where they are of a higher kind (bool < int < float). A whole
 * number is like an int of Python, also where it is written 1.0, and stands for i32 where PyTorch says
 * int64; any other is like a float and stands for f32.
 */
export function resultDType(operands: readonly PromotionOperand[]): DType {
  const tensors = operands.filter((operand) => typeof operand !== 'number');
  const numbers = operands.filter((operand) => typeof operand === 'number');
  const groups = [
    tensors.filter(({ shape }) => shape.length > 0).map(({ dtype }) => dtype),
    tensors.filter(({ shape }) => shape.length === 0).map(({ dtype }) => dtype),
    numbers.map((value): DType => (Number.isInteger(value) ? 'i32' : 'f32')),
  ];
  const [first = 'f32', ...lower] = groups
    .filter((dtypes) => dtypes.length > 0)
    .map((dtypes) => dtypes.reduce(together));
  return lower.reduce(
    (result, dtype) => (rank[kindOf(dtype)] > rank[kindOf(result)] ? dtype : result),
    first,
  );
}

function together(a: DType, b: DType): DType {
  if (a === b) return a;
  if (rank[kindOf(a)] !== rank[kindOf(b)]) return rank[kindOf(a)] > rank[kindOf(b)] ? a : b;
  // f16 and bf16 do not hold each other's values.
  const wider = Math.max(widening.indexOf(a), widening.indexOf(b));
  return widening[wider] ?? 'f32';
}
