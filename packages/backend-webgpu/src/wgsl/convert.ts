import type { DType } from '@shardwise/core/spec';

/** Dtypes through which a cast reads smaller dtypes without loss. */
type Source = 'f32' | 'i32' | 'i64' | 'f64';

const widened: Readonly<
  Record<DType, { readonly as: Source; readonly by: (x: string) => string }>
> = {
  f32: { as: 'f32', by: (x) => x },
  f16: { as: 'f32', by: (x) => `f32_from_f16(${x})` },
  bf16: { as: 'f32', by: (x) => `f32_from_bf16(${x})` },
  i32: { as: 'i32', by: (x) => x },
  u8: { as: 'i32', by: (x) => `i32(${x})` },
  bool: { as: 'i32', by: (x) => `select(0, 1, ${x})` },
  i64: { as: 'i64', by: (x) => x },
  f64: { as: 'f64', by: (x) => x },
};

type Conversion = (x: string) => string;

const conversions: Readonly<Record<Source, Readonly<Record<DType, Conversion>>>> = {
  f32: {
    f32: (x) => x,
    f16: (x) => `f16_from_f32(${x})`,
    bf16: (x) => `bf16_from_f32(${x})`,
    i32: (x) => `i32(${x})`,
    u8: (x) => `(bitcast<u32>(i32(${x})) & 255u)`,
    bool: (x) => `((bitcast<u32>(${x}) << 1u) != 0u)`,
    i64: (x) => `i64_from_f32(${x})`,
    f64: (x) => `f64_from_f32(${x})`,
  },
  i32: {
    f32: (x) => `f32(${x})`,
    f16: (x) => `f16_from_i64(i64_from_i32(${x}))`,
    bf16: (x) => `bf16_from_i64(i64_from_i32(${x}))`,
    i32: (x) => x,
    u8: (x) => `(bitcast<u32>(${x}) & 255u)`,
    bool: (x) => `(${x} != 0)`,
    i64: (x) => `i64_from_i32(${x})`,
    f64: (x) => `f64_from_i64(i64_from_i32(${x}))`,
  },
  i64: {
    f32: (x) => `f32_from_i64(${x})`,
    f16: (x) => `f16_from_i64(${x})`,
    bf16: (x) => `bf16_from_i64(${x})`,
    i32: (x) => `bitcast<i32>(${x}.x)`,
    u8: (x) => `(${x}.x & 255u)`,
    bool: (x) => `((${x}.x | ${x}.y) != 0u)`,
    i64: (x) => x,
    f64: (x) => `f64_from_i64(${x})`,
  },
  f64: {
    f32: (x) => `f32_from_f64(${x})`,
    f16: (x) => `f16_from_f64(${x})`,
    bf16: (x) => `bf16_from_f64(${x})`,
    i32: (x) => `bitcast<i32>(i64_from_f64(${x}).x)`,
    u8: (x) => `(i64_from_f64(${x}).x & 255u)`,
    bool: (x) => `((${x}.x | (${x}.y << 1u)) != 0u)`,
    i64: (x) => `i64_from_f64(${x})`,
    f64: (x) => x,
  },
};

/** The expression that converts `x`, the name of an element, to another dtype. */
export function convert(x: string, from: DType, to: DType): string {
  if (from === to) return x;
  const { as, by } = widened[from];
  return conversions[as][to](by(x));
}
