/**
 * Element types. `f32`, `i32` and `bool` compute on every backend; the others are storage and wire
 * types that a backend lists in its limits where it computes with them.
 */
export const dtypes = {
  f64: { bytes: 8, kind: 'float' },
  f32: { bytes: 4, kind: 'float' },
  f16: { bytes: 2, kind: 'float' },
  bf16: { bytes: 2, kind: 'float' },
  i64: { bytes: 8, kind: 'int' },
  i32: { bytes: 4, kind: 'int' },
  u8: { bytes: 1, kind: 'int' },
  /** One byte an element, 0 or 1. */
  bool: { bytes: 1, kind: 'bool' },
} as const;

export type DType = keyof typeof dtypes;

export const dtypeNames: readonly DType[] = Object.keys(dtypes).filter(isDType);

export function isDType(name: string): name is DType {
  return Object.hasOwn(dtypes, name);
}

/** Dims, outermost first; a scalar is `[]`. */
export type Shape = readonly number[];

/** What is known of a value before it is computed. */
export interface ValueType {
  readonly shape: Shape;
  readonly dtype: DType;
}
