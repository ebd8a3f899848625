import { dtypes, type DType } from '../spec/dtype.ts';

export type DTypeKind = (typeof dtypes)[DType]['kind'];

export function kindOf(dtype: DType): DTypeKind {
  return dtypes[dtype].kind;
}

/** The dtype in which ops compute on values of `dtype`. Their results are rounded back to `dtype`. */
export function computeDType(dtype: DType): DType {
  if (dtype === 'f16' || dtype === 'bf16') return 'f32';
  return dtype === 'u8' ? 'i32' : dtype;
}
