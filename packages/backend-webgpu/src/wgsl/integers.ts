/** Arithmetic with 64 bits in pairs of words, of which x is the low word. */
export const integerFunctions: Readonly<Record<string, string>> = {
  shift_left: `
fn shift_left(a: vec2<u32>, n: u32) -> vec2<u32> {
  if (n == 0u) { return a; }
  if (n >= 64u) { return vec2<u32>(0u); }
  if (n >= 32u) { return vec2<u32>(0u, a.x << (n - 32u)); }
  return vec2<u32>(a.x << n, (a.y << n) | (a.x >> (32u - n)));
}`,
  shift_right: `
fn shift_right(a: vec2<u32>, n: u32) -> vec2<u32> {
  if (n == 0u) { return a; }
  if (n >= 64u) { return vec2<u32>(0u); }
  if (n >= 32u) { return vec2<u32>(a.y >> (n - 32u), 0u); }
  return vec2<u32>((a.x >> n) | (a.y << (32u - n)), a.y >> n);
}`,
  negate_long: `
fn negate_long(a: vec2<u32>) -> vec2<u32> {
  let low = ~a.x + 1u;
  return vec2<u32>(low, ~a.y + select(0u, 1u, low == 0u));
}`,
  leading_zeros: `
fn leading_zeros(a: vec2<u32>) -> u32 {
  return select(countLeadingZeros(a.y), 32u + countLeadingZeros(a.x), a.y == 0u);
}`,
  /** The high and the low word of the product of two words. */
  multiply_long: `
fn multiply_long(a: u32, b: u32) -> vec2<u32> {
  let middle = (a >> 16u) * (b & 0xffffu) + (((a & 0xffffu) * (b & 0xffffu)) >> 16u);
  let cross = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
  return vec2<u32>(a * b, (a >> 16u) * (b >> 16u) + (middle >> 16u) + (cross >> 16u));
}`,
  /** An integer to a power, by repeated squaring. It wraps around on overflow. */
  whole_power: `
fn whole_power(base: i32, exponent: i32) -> i32 {
  if (exponent < 0) {
    if (base == 1) { return 1; }
    if (base == -1) { return select(1, -1, (exponent & 1) != 0); }
    return 0;
  }
  var result = 1;
  var square = base;
  var rest = exponent;
  while (rest > 0) {
    if ((rest & 1) != 0) { result *= square; }
    square *= square;
    rest >>= 1u;
  }
  return result;
}`,
  /** The random bits of an element. The op `random` defines how they are made. */
  random_bits: `
fn random_bits(first: u32, second: u32, index: u32) -> i32 {
  var x = index * 0x9e3779b9u + first;
  x = (x ^ (x >> 16u)) * 0x85ebca6bu;
  x = (x ^ (x >> 13u)) * 0xc2b2ae35u;
  x = (x ^ (x >> 16u)) + second;
  x = (x ^ (x >> 16u)) * 0x7feb352du;
  x = (x ^ (x >> 15u)) * 0x846ca68bu;
  return bitcast<i32>(x ^ (x >> 16u));
}`,
};
