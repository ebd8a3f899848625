import { type DType, dtypeNames, isDType } from './spec/dtype.ts';
import { describeValue, DTypeError } from './spec/errors.ts';

/** The names that other libraries use for dtypes. */
const others: Readonly<Record<string, DType>> = {
  float64: 'f64',
  double: 'f64',
  float32: 'f32',
  float: 'f32',
  float16: 'f16',
  half: 'f16',
  bfloat16: 'bf16',
  int64: 'i64',
  long: 'i64',
  int32: 'i32',
  int: 'i32',
  uint8: 'u8',
  boolean: 'bool',
};

/** Throws DTypeError for a name that no dtype has. */
export function requireDTypeName(operation: string, dtype: string): void {
  if (typeof dtype === 'string' && isDType(dtype)) return;
  const meant = Object.hasOwn(others, dtype) ? others[dtype] : undefined;
  const list = dtypeNames.join(', ');
  throw new DTypeError(
    {
      asked: `${operation} with the dtype ${describeValue(dtype)}`,
      found: 'no dtype of this name',
      todo: meant === undefined ? `Use one of ${list}` : `Write '${meant}'; the dtypes are ${list}`,
    },
    { dtype },
  );
}
