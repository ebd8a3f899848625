/**
 * Conversions between dtypes, by integer arithmetic. WGSL computes neither with 64 bits nor, without a feature, with
 * f16, and it may flush subnormal numbers to 0. A number is taken apart into a sign, a whole mantissa of 64 bits, and
 * an exponent of two.
 */
export const castFunctions: Readonly<Record<string, string>> = {
  /**
   * Rounds to the nearest number of a format, ties to even. `digits` is the number of digits of its mantissa, including
   * the hidden one, `least` is the exponent of its smallest number, and `infinity` has the bits of infinity.
   */
  round_to_format: `
fn round_to_format(mantissa: vec2<u32>, exponent: i32, digits: u32, least: i32, infinity: u32) -> u32 {
  if ((mantissa.x | mantissa.y) == 0u) { return 0u; }
  let zeros = leading_zeros(mantissa);
  let m = shift_left(mantissa, zeros);
  let e = exponent - i32(zeros);
  let quantum = max(e + 64 - i32(digits), least);
  let shift = u32(quantum - e);
  if (shift > 64u) { return 0u; }
  var rounded = shift_right(m, shift).x;
  // What is cut off, moved to the top: above one half, one half, or below.
  let rest = shift_left(m, 64u - shift);
  let isAbove = rest.y > 0x80000000u || (rest.y == 0x80000000u && rest.x != 0u);
  let isHalf = rest.y == 0x80000000u && rest.x == 0u;
  if (isAbove || (isHalf && (rounded & 1u) == 1u)) { rounded += 1u; }
  let steps = quantum - least;
  if (steps > 0x400) { return infinity; }
  return min((u32(steps) << (digits - 1u)) + rounded, infinity);
}`,
  round_to_f32: `
fn round_to_f32(mantissa: vec2<u32>, exponent: i32) -> u32 {
  return round_to_format(mantissa, exponent, 24u, -149, 0x7f800000u);
}`,
  round_to_f16: `
fn round_to_f16(mantissa: vec2<u32>, exponent: i32) -> u32 {
  return round_to_format(mantissa, exponent, 11u, -24, 0x7c00u);
}`,
  round_to_bf16: `
fn round_to_bf16(mantissa: vec2<u32>, exponent: i32) -> u32 {
  return round_to_format(mantissa, exponent, 8u, -133, 0x7f80u);
}`,
  f32_from_f16: `
fn f32_from_f16(h: u32) -> f32 {
  let sign = (h & 0x8000u) << 16u;
  let exponent = (h >> 10u) & 31u;
  let fraction = h & 0x3ffu;
  if (exponent == 31u) { return bitcast<f32>(sign | 0x7f800000u | (fraction << 13u)); }
  if (exponent != 0u) { return bitcast<f32>(sign | ((exponent + 112u) << 23u) | (fraction << 13u)); }
  if (fraction == 0u) { return bitcast<f32>(sign); }
  let zeros = countLeadingZeros(fraction) - 21u;
  return bitcast<f32>(sign | ((113u - zeros) << 23u) | (((fraction << zeros) & 0x3ffu) << 13u));
}`,
  f32_from_bf16: `
fn f32_from_bf16(h: u32) -> f32 { return bitcast<f32>(h << 16u); }`,
  bf16_from_f32: `
fn bf16_from_f32(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return (bits >> 16u) | 0x40u; }
  return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}`,
  /** The mantissa of a finite f32. */
  mantissa_of: `
fn mantissa_of(bits: u32) -> u32 {
  return (bits & 0x7fffffu) | select(0u, 0x800000u, (bits & 0x7f800000u) != 0u);
}`,
  exponent_of: `
fn exponent_of(bits: u32) -> i32 { return max(i32((bits >> 23u) & 255u), 1) - 150; }`,
  f16_from_f32: `
fn f16_from_f32(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let sign = (bits >> 16u) & 0x8000u;
  let magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) { return sign | 0x7e00u; }
  if (magnitude == 0x7f800000u) { return sign | 0x7c00u; }
  return sign | round_to_f16(vec2<u32>(mantissa_of(bits), 0u), exponent_of(bits));
}`,
  i64_from_i32: `
fn i64_from_i32(x: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u)); }`,
  magnitude_of_i64: `
fn magnitude_of_i64(x: vec2<u32>) -> vec2<u32> { return select(x, negate_long(x), (x.y >> 31u) == 1u); }`,
  f32_from_i64: `
fn f32_from_i64(x: vec2<u32>) -> f32 {
  return bitcast<f32>((x.y & 0x80000000u) | round_to_f32(magnitude_of_i64(x), 0));
}`,
  f16_from_i64: `
fn f16_from_i64(x: vec2<u32>) -> u32 {
  return ((x.y >> 16u) & 0x8000u) | round_to_f16(magnitude_of_i64(x), 0);
}`,
  bf16_from_i64: `
fn bf16_from_i64(x: vec2<u32>) -> u32 {
  return ((x.y >> 16u) & 0x8000u) | round_to_bf16(magnitude_of_i64(x), 0);
}`,
  /** The exponent of an f64's mantissa. `mantissa_of_f64` gives the mantissa of a finite f64. */
  exponent_of_f64: `
fn exponent_of_f64(x: vec2<u32>) -> i32 { return max(i32((x.y >> 20u) & 0x7ffu), 1) - 1075; }`,
  mantissa_of_f64: `
fn mantissa_of_f64(x: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(x.x, (x.y & 0xfffffu) | select(0u, 0x100000u, (x.y & 0x7ff00000u) != 0u));
}`,
  is_special_f64: `
fn is_special_f64(x: vec2<u32>) -> bool { return (x.y & 0x7ff00000u) == 0x7ff00000u; }`,
  is_nan_f64: `
fn is_nan_f64(x: vec2<u32>) -> bool {
  let high = x.y & 0x7fffffffu;
  return high > 0x7ff00000u || (high == 0x7ff00000u && x.x != 0u);
}`,
  f32_from_f64: `
fn f32_from_f64(x: vec2<u32>) -> f32 {
  let sign = x.y & 0x80000000u;
  if (is_special_f64(x)) { return bitcast<f32>(sign | 0x7f800000u | select(0u, 0x400000u, is_nan_f64(x))); }
  return bitcast<f32>(sign | round_to_f32(mantissa_of_f64(x), exponent_of_f64(x)));
}`,
  f16_from_f64: `
fn f16_from_f64(x: vec2<u32>) -> u32 {
  let sign = (x.y >> 16u) & 0x8000u;
  if (is_special_f64(x)) { return sign | 0x7c00u | select(0u, 0x200u, is_nan_f64(x)); }
  return sign | round_to_f16(mantissa_of_f64(x), exponent_of_f64(x));
}`,
  bf16_from_f64: `
fn bf16_from_f64(x: vec2<u32>) -> u32 {
  let sign = (x.y >> 16u) & 0x8000u;
  if (is_special_f64(x)) { return sign | 0x7f80u | select(0u, 0x40u, is_nan_f64(x)); }
  return sign | round_to_bf16(mantissa_of_f64(x), exponent_of_f64(x));
}`,
  i64_from_f64: `
fn i64_from_f64(x: vec2<u32>) -> vec2<u32> {
  let exponent = exponent_of_f64(x);
  let m = mantissa_of_f64(x);
  if (is_special_f64(x) || exponent > 11) { return vec2<u32>(0u, 0x80000000u); }
  var whole = shift_left(m, u32(max(exponent, 0)));
  if (exponent < 0) { whole = shift_right(m, u32(-exponent)); }
  return select(whole, negate_long(whole), (x.y >> 31u) == 1u);
}`,
  /** Exact for all numbers, including subnormal ones. */
  f64_from_f32: `
fn f64_from_f32(x: f32) -> vec2<u32> {
  let bits = bitcast<u32>(x);
  let sign = bits & 0x80000000u;
  let magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) {
    return vec2<u32>(0u, sign | 0x7ff00000u | select(0u, 0x80000u, magnitude > 0x7f800000u));
  }
  if (magnitude == 0u) { return vec2<u32>(0u, sign); }
  let m = mantissa_of(bits);
  let zeros = countLeadingZeros(m);
  // The hidden digit goes to place 52, of 64.
  let aligned = shift_left(vec2<u32>(m, 0u), 21u + zeros);
  let biased = u32(exponent_of(bits) + 31 - i32(zeros) + 1023);
  return vec2<u32>(aligned.x, sign | (biased << 20u) | (aligned.y & 0xfffffu));
}`,
  f64_from_i64: `
fn f64_from_i64(x: vec2<u32>) -> vec2<u32> {
  let m = magnitude_of_i64(x);
  if ((m.x | m.y) == 0u) { return vec2<u32>(0u); }
  let sign = x.y & 0x80000000u;
  let zeros = leading_zeros(m);
  let top = shift_left(m, zeros);
  let biased = 1086u - zeros;
  var kept = shift_right(top, 11u);
  let rest = top.x & 0x7ffu;
  if (rest > 0x400u || (rest == 0x400u && (kept.x & 1u) == 1u)) {
    let low = kept.x + 1u;
    kept = vec2<u32>(low, kept.y + select(0u, 1u, low == 0u));
  }
  // A carry out of the mantissa goes on into the exponent.
  return vec2<u32>(kept.x, sign | ((biased << 20u) + kept.y - 0x100000u));
}`,
  i64_from_f32: `
fn i64_from_f32(x: f32) -> vec2<u32> { return i64_from_f64(f64_from_f32(x)); }`,
};
