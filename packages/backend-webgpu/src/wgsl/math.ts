/**
 * The result of an odd rational whose function approaches -1 and 1. Beyond the bound the function is exactly -1 or 1.
 */
const upToOne = 'select(clamp(ratio, -1.0, 1.0), select(1.0, -1.0, x < 0.0), abs(x) >= bound)';

/**
 * Functions of f32. WGSL promises little of its own functions: sin is exact to 2^-11 and only near zero, tanh to 1e-5,
 * and an implementation may assume that no value is NaN or infinite. The functions here therefore look at bits. They
 * reduce and approximate as the kernels of backend-cpu do, with minimax polynomials of the relative error, rounded to
 * f32.
 */
export const mathFunctions: Readonly<Record<string, string>> = {
  is_nan: `
fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }`,
  is_infinite: `
fn is_infinite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }`,
  /**
   * The number with the given bits. It is read from a variable, because a compiler refuses literals of NaN and
   * infinity.
   */
  f32_of_bits: `
fn f32_of_bits(bits: u32) -> f32 {
  var kept = bits;
  return bitcast<f32>(kept);
}`,
  /** The same number, of which a compiler does not know how it was computed. `no_bits` is 0 in every kernel. */
  opaque_of: `
fn opaque_of(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ no_bits()); }`,
  /**
   * WGSL's quotient may be off by two units in the last place, so that 6 / 3 is not 2, and may be anything if the
   * divisor is above 2^126. So both are made smaller, and a step of Newton's method corrects the quotient. The result is
   * the number that leaves the smaller rest, even if an implementation rounds products in `fma`.
   */
  quotient_of: `
fn quotient_of(a: f32, b: f32) -> f32 {
  let scale = select(1.0, 0.25, abs(b) > 1e37);
  let dividend = opaque_of(a * scale);
  let divisor = opaque_of(b * scale);
  let first = opaque_of(dividend / divisor);
  let exponent = bitcast<u32>(first) & 0x7f800000u;
  if (exponent == 0u || exponent == 0x7f800000u) { return first; }
  let rest = fma(-first, divisor, dividend);
  let second = opaque_of(first + rest / divisor);
  return select(first, second, abs(fma(-second, divisor, dividend)) < abs(rest));
}`,
  /** So may WGSL's square root, and it is corrected in the same way. */
  square_root_of: `
fn square_root_of(x: f32) -> f32 {
  if (is_nan(x) || x < 0.0) { return f32_of_bits(0x7fc00000u); }
  let first = opaque_of(sqrt(x));
  if (first == 0.0 || is_infinite(first)) { return first; }
  let rest = fma(-first, first, x);
  let second = opaque_of(first + 0.5 * rest / first);
  return select(first, second, abs(fma(-second, second, x)) < abs(rest));
}`,
  /**
   * The same holds for WGSL's inverse square root. In the step of Newton's method, `error` is 1 - x y², of which `rest`
   * is what the product x y loses.
   */
  inverse_root_of: `
fn inverse_root_of(x: f32) -> f32 {
  if (x == 0.0) { return f32_of_bits(0x7f800000u); }
  let y = inverseSqrt(x);
  if (is_infinite(x) || is_infinite(y)) { return y; }
  let product = x * y;
  let rest = fma(x, y, -product);
  let error = fma(-product, y, 1.0) - rest * y;
  return fma(0.5 * y, error, y);
}`,
  sign_of: `
fn sign_of(x: f32) -> f32 {
  if (is_nan(x)) { return 0.0; }
  return select(select(0.0, -1.0, x < 0.0), 1.0, x > 0.0);
}`,
  larger_of: `
fn larger_of(a: f32, b: f32) -> f32 {
  if (is_nan(a)) { return a; }
  if (is_nan(b)) { return b; }
  return max(a, b);
}`,
  smaller_of: `
fn smaller_of(a: f32, b: f32) -> f32 {
  if (is_nan(a)) { return a; }
  if (is_nan(b)) { return b; }
  return min(a, b);
}`,
  is_equal: `
fn is_equal(a: f32, b: f32) -> bool { return a == b && !is_nan(a) && !is_nan(b); }`,
  is_less: `
fn is_less(a: f32, b: f32) -> bool { return a < b && !is_nan(a) && !is_nan(b); }`,
  is_less_or_equal: `
fn is_less_or_equal(a: f32, b: f32) -> bool { return a <= b && !is_nan(a) && !is_nan(b); }`,
  /** 2^n for -126 <= n <= 127. The result is 0 for n = -127, and infinity for n = 128. */
  power_of_two: `
fn power_of_two(n: i32) -> f32 { return f32_of_bits(u32(n + 127) << 23u); }`,
  exp_of: `
fn exp_of(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let bounded = clamp(x, -104.0, 89.0);
  let n = round(bounded * 1.44269504);
  let r = (bounded - n * 0.693359375) - n * -2.12194440055e-4;
  let tail = r * r * (0.49999994 + r * (0.166665092 + r * (0.0416685268 + r * (0.00837013498 + r * 0.00138116628))));
  // In two steps, since 2^n itself may overflow or vanish where the product does not.
  let half = i32(n) >> 1u;
  return (tail + r + 1.0) * power_of_two(half) * power_of_two(i32(n) - half);
}`,
  log_of: `
fn log_of(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  if (is_nan(x) || x < 0.0) { return f32_of_bits(0x7fc00000u); }
  if ((bits & 0x7fffffffu) == 0u) { return f32_of_bits(0xff800000u); }
  if (bits == 0x7f800000u) { return x; }
  // A subnormal number is brought to the normal ones without computing with it, which may flush it.
  var normal = bitcast<i32>(bits);
  var scaled = 0;
  if (bits < 0x800000u) {
    let zeros = countLeadingZeros(bits) - 8u;
    normal = bitcast<i32>((bits << zeros) & 0x7fffffu) | (1 << 23u);
    scaled = i32(zeros);
  }
  let e = (normal - 0x3f3504f3) >> 23u;
  let f = bitcast<f32>(normal - (e << 23u)) - 1.0;
  let n = f32(e - scaled);
  let p = 0.333333135 + f * (-0.250000089 + f * (0.200021192 + f * (-0.166679963 + f * (0.142195523 +
    f * (-0.124055885 + f * (0.118881606 + f * (-0.116756544 + f * 0.0674664676)))))));
  let square = f * f;
  return ((n * -2.12194440055e-4 + square * f * p) - square * 0.5 + f) + n * 0.693359375;
}`,
  tanh_of: oddRational('tanh_of', upToOne, {
    bound: 9.007943153381348,
    numerator: [1, 0.133810267, 0.00349558936, 2.06091045e-5, 1.3354696e-8],
    denominator: [1, 0.467143416, 0.0258769877, 0.000328563707, 7.77657192e-7],
  }),
  erf_of: oddRational('erf_of', upToOne, {
    bound: 3.98028564453125,
    numerator: [1.12837911, 0.189619526, 0.052661892, 0.00373630924, 0.000285014889, 2.0668333e-6],
    denominator: [1, 0.501378715, 0.113799445, 0.0149102379, 0.00115687714, 3.82712387e-5],
  }),
  gelu_normal: oddRational('gelu_normal', 'x * (ratio + 0.5)', {
    bound: 5.419099807739258,
    numerator: [
      0.398942262, 0.0333356522, 0.00464852666, 0.000163935081, 6.35614015e-6, 2.34086208e-8,
    ],
    denominator: [1, 0.250226229, 0.0283575207, 0.00185681973, 7.22691548e-5, 1.21693722e-6],
  }),
  gelu_slope_normal: oddRational('gelu_slope_normal', 'ratio + 0.5', {
    bound: 6.0970001220703125,
    numerator: [
      0.797884524, -0.0155064743, 0.0134690879, 0.000330992014, 3.20283361e-5, 1.24370263e-6,
      1.38179184e-8, -2.94833637e-11,
    ],
    denominator: [
      1, 0.313898295, 0.0465153866, 0.00428016717, 0.000269995158, 1.14094864e-5, 3.96543555e-7,
    ],
  }),
  gelu_tanh: oddRational('gelu_tanh', 'x * (ratio + 0.5)', {
    bound: 5.147428512573242,
    numerator: [
      0.398942322, 0.0303363819, 0.00363219297, 0.000133133537, 7.06186256e-6, 2.4186857e-8,
    ],
    denominator: [1, 0.243534356, 0.0243214052, 0.00129721547, 7.5701093e-5, 1.32047637e-6],
  }),
  gelu_slope_tanh: oddRational('gelu_slope_tanh', 'ratio + 0.5', {
    bound: 5.615600109100342,
    numerator: [
      0.797884285, 0.0108791543, 0.0100866752, 0.000735725567, 1.07558017e-5, 2.54901875e-6,
      1.68585412e-8,
    ],
    denominator: [
      1, 0.348614782, 0.0527166761, 0.00428911764, 0.000282819645, 1.3073115e-5, 7.0849552e-7,
    ],
  }),
  sigmoid_of: `
fn sigmoid_of(x: f32) -> f32 { return 1.0 / (1.0 + exp_of(-x)); }`,
  /** log(1 + e) for 0 <= e <= 1, as twice the area tangent of e / (2 + e). Adding 1 + e would lose digits of e. */
  log1p_of: `
fn log1p_of(e: f32) -> f32 {
  let z = e / (2.0 + e);
  let s = z * z;
  let p = 1.0 + s * (0.333333333 + s * (0.2 + s * (0.142857143 + s * (0.111111111 + s * (0.0909090909 +
    s * (0.0769230769 + s * (0.0666666667 + s * 0.0588235294)))))));
  return 2.0 * z * p;
}`,
  softplus_of: `
fn softplus_of(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  return max(x, 0.0) + log1p_of(exp_of(-abs(x)));
}`,
  /** The arc tangent: by a polynomial for |x| <= tan(pi/8), and by the addition theorem for other x. */
  atan_of: `
fn atan_of(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = abs(x);
  var base = 0.0;
  var t = a;
  if (a > 2.414213562) { base = 1.5707963268; t = -1.0 / a; }
  else if (a > 0.4142135624) { base = 0.7853981634; t = (a - 1.0) / (a + 1.0); }
  if (is_infinite(a)) { t = 0.0; }
  let s = t * t;
  let p = base + (t + t * s * (-0.333329491539 + s * (0.199777106478 + s * (-0.138776856032 + s * 0.0805374449538))));
  return select(p, -p, x < 0.0);
}`,
  /**
   * x as a number of quarter turns, and the rest within an eighth turn. For small arguments pi/2 is subtracted in three
   * parts. Large ones are multiplied with as many binary digits of 2/pi as they need (Payne and Hanek 1983).
   */
  reduce_turns: `
struct Turn { quadrant: u32, rest: f32 }
const two_over_pi = array<u32, 7>(0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u);
fn reduce_turns(x: f32) -> Turn {
  let a = abs(x);
  if (a < 8192.0) {
    let n = round(a * 0.636619772);
    let r = ((a - n * 1.5703125) - n * 4.837512969970703125e-4) - n * 7.54978995489188e-8;
    return Turn(u32(n), r);
  }
  let bits = bitcast<u32>(a);
  let mantissa = ((bits & 0x7fffffu) | 0x800000u) << 8u;
  let exponent = (bits >> 23u) - 126u;
  let word = exponent >> 5u;
  let shift = exponent & 31u;
  var table = two_over_pi;
  var digits: array<u32, 3>;
  for (var i = 0u; i < 3u; i++) {
    let high = table[min(word + i, 6u)];
    let low = table[min(word + i + 1u, 6u)];
    digits[i] = select((high << shift) | (low >> (32u - shift)), high, shift == 0u);
  }
  // The product modulo 4 quarter turns: two digits of the quadrant, then 62 of the fraction.
  let lowest = multiply_long(mantissa, digits[2]);
  let middle = multiply_long(mantissa, digits[1]);
  let low = middle.x + lowest.y;
  let high = mantissa * digits[0] + middle.y + select(0u, 1u, low < middle.x);
  var quadrant = high >> 30u;
  var fraction = vec2<u32>(low, high & 0x3fffffffu);
  var sign = 1.0;
  if ((fraction.y & 0x20000000u) != 0u) {
    quadrant += 1u;
    fraction = negate_long(fraction);
    fraction.y &= 0x3fffffffu;
    sign = -1.0;
  }
  let zeros = leading_zeros(fraction);
  let top = shift_left(fraction, min(zeros, 63u)).y;
  let scaled = f32(top >> 8u) * power_of_two(2 - i32(min(zeros, 100u)) - 24);
  return Turn(quadrant & 3u, sign * scaled * 1.57079633);
}`,
  sin_of_rest: `
fn sin_of_rest(r: f32) -> f32 {
  let s = r * r;
  return r + r * s * (-0.166666507 + s * (0.00833216 + s * -1.9515296e-4));
}`,
  cos_of_rest: `
fn cos_of_rest(r: f32) -> f32 {
  let s = r * r;
  return (1.0 - 0.5 * s) + s * s * (0.0416666456 + s * (-0.00138873162 + s * 2.44331571e-5));
}`,
  sin_of: `
fn sin_of(x: f32) -> f32 {
  if (is_nan(x) || is_infinite(x)) { return f32_of_bits(0x7fc00000u); }
  let turn = reduce_turns(x);
  var y = sin_of_rest(turn.rest);
  if ((turn.quadrant & 1u) == 1u) { y = cos_of_rest(turn.rest); }
  if ((turn.quadrant & 2u) == 2u) { y = -y; }
  return select(y, -y, x < 0.0);
}`,
  cos_of: `
fn cos_of(x: f32) -> f32 {
  if (is_nan(x) || is_infinite(x)) { return f32_of_bits(0x7fc00000u); }
  let turn = reduce_turns(x);
  var y = cos_of_rest(turn.rest);
  if ((turn.quadrant & 1u) == 1u) { y = -sin_of_rest(turn.rest); }
  return select(y, -y, (turn.quadrant & 2u) == 2u);
}`,
  /** |a| modulo |b|, by long division of the mantissas, which is exact. */
  remainder_of: `
fn remainder_of(a: f32, b: f32) -> f32 {
  if (is_nan(a) || is_nan(b) || is_infinite(a) || b == 0.0) { return f32_of_bits(0x7fc00000u); }
  if (is_infinite(b) || abs(a) < abs(b)) { return a; }
  let bits = bitcast<u32>(abs(a));
  let divisor = bitcast<u32>(abs(b));
  var m = mantissa_of(bits);
  let d = mantissa_of(divisor);
  var e = exponent_of(bits);
  let least = exponent_of(divisor);
  m %= d;
  while (e > least && m != 0u) {
    m = (m << 1u) % d;
    e--;
  }
  let rest = bitcast<f32>(round_to_f32(vec2<u32>(m, 0u), e));
  return select(rest, -rest, a < 0.0);
}`,
  /**
   * A power of a positive base, by its logarithm to base 2. The logarithm has two parts, whose products with the
   * exponent are exact to a few digits.
   */
  positive_power: `
fn positive_power(base: f32, exponent: f32) -> f32 {
  let bits = bitcast<u32>(base);
  var normal = bitcast<i32>(bits);
  var scaled = 0;
  if (bits < 0x800000u) {
    let zeros = countLeadingZeros(bits) - 8u;
    normal = bitcast<i32>((bits << zeros) & 0x7fffffu) | (1 << 23u);
    scaled = i32(zeros);
  }
  let e = (normal - 0x3f3504f3) >> 23u;
  let fraction = log_of(bitcast<f32>(normal - (e << 23u))) * 1.44269504;
  let n = f32(e - scaled);
  // The upper half of the exponent's digits times a whole number of 8 digits is exact.
  let upper = bitcast<f32>(bitcast<u32>(exponent) & 0xfffff000u);
  let lower = exponent - upper;
  let whole = upper * n;
  if (abs(whole + exponent * fraction) > 300.0) {
    return select(0.0, f32_of_bits(0x7f800000u), whole + exponent * fraction > 0.0);
  }
  let nearest = round(whole + exponent * fraction);
  let rest = ((whole - nearest) + lower * n) + exponent * fraction;
  let half = i32(nearest) >> 1u;
  return exp_of(rest * 0.693147181) * power_of_two(clamp(half, -127, 127))
    * power_of_two(clamp(i32(nearest) - half, -127, 127));
}`,
  power_of: `
fn power_of(base: f32, exponent: f32) -> f32 {
  if (base == 1.0 || exponent == 0.0) { return 1.0; }
  if (is_nan(base) || is_nan(exponent)) { return f32_of_bits(0x7fc00000u); }
  let infinity = f32_of_bits(0x7f800000u);
  let a = abs(base);
  if (is_infinite(exponent)) {
    if (a == 1.0) { return 1.0; }
    return select(0.0, infinity, (a > 1.0) == (exponent > 0.0));
  }
  let isWhole = floor(exponent) == exponent;
  let isOdd = isWhole && abs(exponent) < 16777216.0 && (i32(exponent) & 1) != 0;
  let isNegative = (bitcast<u32>(base) >> 31u) == 1u;
  var result = 0.0;
  if ((bitcast<u32>(a)) == 0u) { result = select(infinity, 0.0, exponent > 0.0); }
  else if (is_infinite(a)) { result = select(0.0, infinity, exponent > 0.0); }
  else {
    if (isNegative && !isWhole) { return f32_of_bits(0x7fc00000u); }
    if (exponent == 2.0) { return base * base; }
    result = positive_power(a, exponent);
  }
  return select(result, -result, isNegative && isOdd);
}`,
};

interface OddRational {
  /** Beyond this |x| the function has the value that it has at the bound, to the digits of f32. */
  readonly bound: number;
  /** Coefficients of x² in x · numerator / denominator, from the lowest power on. */
  readonly numerator: readonly number[];
  readonly denominator: readonly number[];
}

/** The text of an odd function of x. `result` is an expression that uses `ratio`, the quotient of two polynomials. */
function oddRational(
  name: string,
  result: string,
  { bound, numerator, denominator }: OddRational,
): string {
  return `
fn ${name}(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let bound = ${f32Literal(bound)};
  let b = clamp(x, -bound, bound);
  let s = b * b;
  let ratio = b * ${horner(numerator)} / ${horner(denominator)};
  return ${result};
}`;
}

/** The value of a polynomial of s, by Horner's scheme. */
function horner(coefficients: readonly number[]): string {
  return coefficients.map(f32Literal).reduceRight((rest, c) => `(${c} + s * ${rest})`);
}

function f32Literal(x: number): string {
  const text = `${x}`;
  return /[.e]/.test(text) ? text : `${text}.0`;
}
