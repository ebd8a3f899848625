/**
 * Element types. Every backend computes all ops with `f32`, `i32` and `bool`. The others are for
 * storage and the wire, and every backend does two things with them: `cast` from any dtype to any, and
 * the movements `constant`, `reshape`, `permute`, `expand`, `slice`, `pad`, `concat`, `where`,
 * `gather` and `indexSelect`, which keep every bit. A backend that computes with more dtypes lists them in its
 * limits. Core has `f16` and `bf16` computed in f32, with each result rounded once, and `u8` in i32. It refuses
 * arithmetic on the rest.
 */
export const dtypes = {
  f64: { bytes: 8, kind: 'float' },
  f32: { bytes: 4, kind: 'float' },
  f16: { bytes: 2, kind: 'float' },
  bf16: { bytes: 2, kind: 'float' },
  i64: { bytes: 8, kind: 'int' },
  i32: { bytes: 4, kind: 'int' },
  u8: { bytes: 1, kind: 'int' },
  /** One byte per element, which is 0 or 1. */
  bool: { bytes: 1, kind: 'bool' },
} as const;

/** The name of an element type. */
export type DType = keyof typeof dtypes;

/** The floats of two bytes. Products of such operands are summed in f32. */
export type HalfDType = 'bf16' | 'f16';

/** Whether an element is a float of two bytes. */
export function isHalfDType(dtype: DType): dtype is HalfDType {
  return dtype === 'bf16' || dtype === 'f16';
}

/** All element types. */
export const dtypeNames: readonly DType[] = Object.keys(dtypes).filter(isDType);

/** Whether a name, for example from a file, is that of an element type. */
export function isDType(name: string): name is DType {
  return Object.hasOwn(dtypes, name);
}

/** The sizes of the dims, outermost first. A scalar has the shape `[]`. */
export type Shape = readonly number[];

/** The shape and dtype of a value, which are known before it is computed. */
export interface ValueType {
  readonly shape: Shape;
  readonly dtype: DType;
}
