import {
  type Code,
  f32x4,
  type FunctionBuilder,
  i32x4,
  type Local,
  v128,
} from '@shardwise/wasm-assembler';

/**
 * Transcendental functions on f32x4: range reduction and minimax polynomials (Remez exchange on
 * the relative error, rounded to f32), without fused multiply-add, so that every machine gets the
 * same bits.
 */
type V128 = Code<'v128'>;
type Vector = Local<'v128'>;

/** Adding this number leaves the nearest integer in the low bits of the sum. */
const ROUND_MAGIC = 12582912;
const LN2_HIGH = 0.693359375;
const LN2_LOW = -2.12194440055e-4;
const MANTISSA_BITS = 23;

/** exp(r) = 1 + r + r² P(r) for |r| <= ln 2 / 2; error 4e-9. */
const EXP = [0.49999994, 0.166665092, 0.0416685268, 0.00837013498, 0.00138116628];
/** 2^f for |f| <= 1/2, exact at 0; error 9e-8. */
const EXP2 = [1, 0.693147004, 0.240222424, 0.0555073358, 0.00967151299, 0.00132647273];
/** log(1 + f) = f - f²/2 + f³ P(f) between √½ and √2; error 8e-10. */
const LOG = [
  0.333333135, -0.250000089, 0.200021192, -0.166679963, 0.142195523, -0.124055885, 0.118881606,
  -0.116756544, 0.0674664676,
];
/**
 * An odd function x P(x²) / Q(x²) up to `bound`. Beyond it, the function keeps its value at `bound`. `bound` is chosen
 * so that this value is exactly the limit.
 */
interface OddRational {
  readonly bound: number;
  readonly numerator: readonly number[];
  readonly denominator: readonly number[];
}

/** tanh, with a relative error of 2.1e-8 before rounding. */
const TANH: OddRational = {
  bound: 9.007943153381348,
  numerator: [1, 0.133810267, 0.00349558936, 2.06091045e-5, 1.3354696e-8],
  denominator: [1, 0.467143416, 0.0258769877, 0.000328563707, 7.77657192e-7],
};
/** erf, with a relative error of 1.7e-8. */
const ERF: OddRational = {
  bound: 3.98028564453125,
  numerator: [1.12837911, 0.189619526, 0.052661892, 0.00373630924, 0.000285014889, 2.0668333e-6],
  denominator: [1, 0.501378715, 0.113799445, 0.0149102379, 0.00115687714, 3.82712387e-5],
};
/** Φ(x) - 1/2, the normal distribution function; absolute error 5.6e-9. */
const NORMAL: OddRational = {
  bound: 5.419099807739258,
  numerator: [
    0.398942262, 0.0333356522, 0.00464852666, 0.000163935081, 6.35614015e-6, 2.34086208e-8,
  ],
  denominator: [1, 0.250226229, 0.0283575207, 0.00185681973, 7.22691548e-5, 1.21693722e-6],
};
/** Φ(x) + x φ(x) - 1/2; absolute error 6.4e-9. */
const NORMAL_SLOPE: OddRational = {
  bound: 6.0970001220703125,
  numerator: [
    0.797884524, -0.0155064743, 0.0134690879, 0.000330992014, 3.20283361e-5, 1.24370263e-6,
    1.38179184e-8, -2.94833637e-11,
  ],
  denominator: [
    1, 0.313898295, 0.0465153866, 0.00428016717, 0.000269995158, 1.14094864e-5, 3.96543555e-7,
  ],
};
/** tanh(u) / 2, u = √(2/π) (x + 0.044715 x³); absolute error 6.6e-9. */
const GELU_TANH: OddRational = {
  bound: 5.147428512573242,
  numerator: [
    0.398942322, 0.0303363819, 0.00363219297, 0.000133133537, 7.06186256e-6, 2.4186857e-8,
  ],
  denominator: [1, 0.243534356, 0.0243214052, 0.00129721547, 7.5701093e-5, 1.32047637e-6],
};
/** The derivative of x (1 + tanh u) / 2, less 1/2; absolute error 4.3e-8. */
const GELU_TANH_SLOPE: OddRational = {
  bound: 5.615600109100342,
  numerator: [
    0.797884285, 0.0108791543, 0.0100866752, 0.000735725567, 1.07558017e-5, 2.54901875e-6,
    1.68585412e-8,
  ],
  denominator: [
    1, 0.348614782, 0.0527166761, 0.00428911764, 0.000282819645, 1.3073115e-5, 7.0849552e-7,
  ],
};

/**
 * Evaluates a polynomial by Estrin's scheme: pairs, then pairs of pairs. This makes short chains of dependent
 * instructions.
 */
function polynomial(fn: FunctionBuilder, x: Vector, coefficients: readonly number[]): V128 {
  let power = x;
  let terms: V128[] = coefficients.map((coefficient) => fn.float(coefficient));
  while (terms.length > 1) {
    const pairs: V128[] = [];
    for (let i = 0; i < terms.length; i += 2) {
      const [low, high] = terms.slice(i, i + 2);
      if (low) pairs.push(high ? f32x4.add(f32x4.mul(high, power), low) : low);
    }
    terms = pairs;
    if (terms.length > 1) power = fn.let(f32x4.mul(power, power));
  }
  return terms[0] ?? fn.float(0);
}

/** Limits x to a range. This order of operands keeps NaN. */
function clamp(fn: FunctionBuilder, x: V128, low: number, high: number): Vector {
  return fn.let(f32x4.pmin(f32x4.pmax(x, fn.float(low)), fn.float(high)));
}

/** Reduces x to n ln 2 + r. Returns exp(r), and a number whose low bits are n added to those of ROUND_MAGIC. */
function reduceExp(fn: FunctionBuilder, bounded: Vector): [Vector, Vector] {
  const magic = fn.float(ROUND_MAGIC);
  const shifted = fn.let(f32x4.add(f32x4.mul(bounded, fn.float(Math.LOG2E)), magic));
  const n = fn.let(f32x4.sub(shifted, magic));
  const coarse = f32x4.sub(bounded, f32x4.mul(n, fn.float(LN2_HIGH)));
  const r = fn.let(f32x4.sub(coarse, f32x4.mul(n, fn.float(LN2_LOW))));
  const tail = f32x4.mul(f32x4.mul(r, r), polynomial(fn, r, EXP));
  const mantissa = fn.let(f32x4.add(f32x4.add(tail, r), fn.float(1)));
  return [mantissa, shifted];
}

/** 2^n for -127 <= n <= 128; only the low 9 bits of n count. -127 gives 0, 128 infinity. */
function powerOfTwo(fn: FunctionBuilder, n: V128): V128 {
  return i32x4.add(i32x4.shl(n, MANTISSA_BITS), fn.float(1));
}

/** Computes exp over the whole range, including denormal results. */
export function exp(fn: FunctionBuilder, x: Vector): V128 {
  const [mantissa, shifted] = reduceExp(fn, clamp(fn, x, -104, 89));
  // The result is scaled in two steps, because 2^n itself may overflow or vanish where the product does not.
  const n = fn.let(i32x4.sub(shifted, fn.float(ROUND_MAGIC)));
  const half = fn.let(i32x4.shrS(n, 1));
  const first = f32x4.mul(mantissa, powerOfTwo(fn, half));
  return f32x4.mul(first, powerOfTwo(fn, i32x4.sub(n, half)));
}

/** Computes exp a little faster: results below 2^-126 may be 0, and results above 2^127.5 may be infinity. */
function expFlushed(fn: FunctionBuilder, x: V128): V128 {
  const [mantissa, shifted] = reduceExp(fn, clamp(fn, x, -88, 89));
  return f32x4.mul(mantissa, powerOfTwo(fn, shifted));
}

/**
 * Computes exp for x <= 0 as 2^(x log2 e). This is still faster, and meant for weights that are summed. The relative
 * error grows with |x|, but the absolute error stays below 1e-7. Results below 2^-126 are 0.
 */
export function expNegative(fn: FunctionBuilder, x: V128): V128 {
  const magic = fn.float(ROUND_MAGIC);
  const scaled = f32x4.mul(x, fn.float(Math.LOG2E));
  const bounded = fn.let(f32x4.pmax(scaled, fn.float(-127)));
  const shifted = fn.let(f32x4.add(bounded, magic));
  const fraction = fn.let(f32x4.sub(bounded, f32x4.sub(shifted, magic)));
  return f32x4.mul(polynomial(fn, fraction, EXP2), powerOfTwo(fn, shifted));
}

export function log(fn: FunctionBuilder, x: Vector): V128 {
  const tiny = fn.let(f32x4.lt(x, fn.float(2 ** -126)));
  const normal = fn.let(v128.bitselect(f32x4.mul(x, fn.float(2 ** MANTISSA_BITS)), x, tiny));
  const sqrtHalfBits = fn.int(0x3f3504f3);
  const e = fn.let(i32x4.shrS(i32x4.sub(normal, sqrtHalfBits), MANTISSA_BITS));
  const mantissa = i32x4.sub(normal, i32x4.shl(e, MANTISSA_BITS));
  const f = fn.let(f32x4.sub(mantissa, fn.float(1)));
  const scaled = v128.and(tiny, fn.int(MANTISSA_BITS));
  const n = fn.let(f32x4.convertI32x4S(i32x4.sub(e, scaled)));
  const square = fn.let(f32x4.mul(f, f));
  const cubic = f32x4.mul(f32x4.mul(square, f), polynomial(fn, f, LOG));
  const small = f32x4.add(f32x4.mul(n, fn.float(LN2_LOW)), cubic);
  const sum = f32x4.add(f32x4.sub(small, f32x4.mul(square, fn.float(0.5))), f);
  const finite = fn.let(f32x4.add(sum, f32x4.mul(n, fn.float(LN2_HIGH))));
  const infinity = fn.float(Infinity);
  const atInfinity = v128.bitselect(x, finite, f32x4.eq(x, infinity));
  const atZero = v128.bitselect(fn.float(-Infinity), atInfinity, f32x4.eq(x, fn.float(0)));
  // A lane with all bits set is a NaN.
  const notANumber = v128.or(f32x4.lt(x, fn.float(0)), f32x4.ne(x, x));
  return v128.or(atZero, notANumber);
}

export function sigmoid(fn: FunctionBuilder, x: Vector): V128 {
  const one = fn.float(1);
  return f32x4.div(one, f32x4.add(one, expFlushed(fn, f32x4.neg(x))));
}

export function tanh(fn: FunctionBuilder, x: Vector): V128 {
  return clamp(fn, oddRational(fn, TANH, x), -1, 1);
}

export function erf(fn: FunctionBuilder, x: Vector): V128 {
  return clamp(fn, oddRational(fn, ERF, x), -1, 1);
}

/** Computes x Φ(x), or x (1 + tanh u) / 2. */
export function gelu(fn: FunctionBuilder, x: Vector, approximate: 'none' | 'tanh'): V128 {
  const odd = oddRational(fn, approximate === 'none' ? NORMAL : GELU_TANH, x);
  return f32x4.mul(x, f32x4.add(odd, fn.float(0.5)));
}

export function geluSlope(fn: FunctionBuilder, x: Vector, approximate: 'none' | 'tanh'): V128 {
  const odd = oddRational(fn, approximate === 'none' ? NORMAL_SLOPE : GELU_TANH_SLOPE, x);
  return f32x4.add(odd, fn.float(0.5));
}

function oddRational(fn: FunctionBuilder, rational: OddRational, x: V128): V128 {
  const { bound, numerator, denominator } = rational;
  const bounded = clamp(fn, x, -bound, bound);
  const square = fn.let(f32x4.mul(bounded, bounded));
  const upper = f32x4.mul(bounded, polynomial(fn, square, numerator));
  return f32x4.div(upper, polynomial(fn, square, denominator));
}
