import { fusedMultiplyAdd as fma } from './fused-multiply-add.ts';

const { fround } = Math;

const TWO_PI = fround(2 * Math.PI);

// The constants of Cephes logf: the polynomial on [sqrt(1/2), sqrt(2)), highest power first, and log(2) in two parts.
const SQRT_HALF = fround(Math.SQRT1_2);
const LOG_0 = fround(7.0376836292e-2);
const LOG_1 = fround(-1.151461031e-1);
const LOG_2 = fround(1.167699874e-1);
const LOG_3 = fround(-1.2420140846e-1);
const LOG_4 = fround(1.4249322787e-1);
const LOG_5 = fround(-1.6668057665e-1);
const LOG_6 = fround(2.0000714765e-1);
const LOG_7 = fround(-2.4999993993e-1);
const LOG_8 = fround(3.3333331174e-1);
const LN2_LOW = fround(-2.1219444e-4);
const LN2_HIGH = fround(0.693359375);

// The constants of Cephes sinf and cosf: -pi/4 in three parts, and the polynomials on [0, pi/4].
const FOUR_OVER_PI = fround(1.27323954473516);
const REDUCE_HIGH = fround(-0.78515625);
const REDUCE_MIDDLE = fround(-2.4187564849853515625e-4);
const REDUCE_LOW = fround(-3.774894977445941e-8);
const COS_0 = fround(2.443315711809948e-5);
const COS_1 = fround(-1.388731625493765e-3);
const COS_2 = fround(4.166664568298827e-2);
const SIN_0 = fround(-1.9515295891e-4);
const SIN_1 = fround(8.3321608736e-3);
const SIN_2 = fround(-1.6666654611e-1);

/**
 * Turns 16 uniform values (multiples of 2^-24 below 1) at `offset` into normal ones, in place. It makes
 * eight radii from the first half and eight angles from the second. The float32 arithmetic is that of PyTorch's x86-64
 * builds: Cephes log, sin and cos with their multiplications and additions fused as the compiler fused them. It differs
 * from libm in the last bits of about 40 % of the values.
 */
export function boxMuller16(data: Float32Array, offset: number, mean: number, std: number): void {
  const mean32 = fround(mean);
  const std32 = fround(std);
  for (let i = offset; i < offset + 8; i++) {
    const radius = fround(Math.sqrt(fround(-2 * log(fround(1 - (data[i] ?? 0))))));
    const theta = fround(TWO_PI * (data[i + 8] ?? 0));

    // `octant` is an even number j. Theta is replaced by its distance from j pi/4.
    const octant = ((fround(theta * FOUR_OVER_PI) | 0) + 1) & ~1;
    let x = fma(octant, REDUCE_HIGH, theta);
    x = fma(octant, REDUCE_MIDDLE, x);
    x = fma(octant, REDUCE_LOW, x);
    const z = fround(x * x);
    const even = fround(fma(fma(COS_0, z, COS_1), z, COS_2) * z);
    const cosine = fround(fma(even, z, -0.5 * z) + 1);
    const sine = fma(fround(fma(fma(SIN_0, z, SIN_1), z, SIN_2) * z), x, x);

    const swapped = (octant & 2) !== 0;
    const cosSign = ((octant - 2) & 4) === 0 ? -1 : 1;
    const sinSign = (octant & 4) === 0 ? 1 : -1;
    const cosTheta = cosSign * (swapped ? sine : cosine);
    const sinTheta = sinSign * (swapped ? cosine : sine);
    data[i] = fma(fround(radius * cosTheta), std32, mean32);
    data[i + 8] = fma(fround(radius * sinTheta), std32, mean32);
  }
}

/** The natural logarithm of a float32 in (0, 1] that is a multiple of 2^-24. */
function log(value: number): number {
  const scaled = value * 2 ** 24;
  const bits = 32 - Math.clz32(scaled);
  const mantissa = scaled / (1 << bits);
  const small = mantissa < SQRT_HALF;
  const exponent = bits - 24 - (small ? 1 : 0);
  const x = small ? fround(fround(mantissa - 1) + mantissa) : fround(mantissa - 1);
  const z = fround(x * x);
  let y = fma(LOG_0, x, LOG_1);
  y = fma(y, x, LOG_2);
  y = fma(y, x, LOG_3);
  y = fma(y, x, LOG_4);
  y = fma(y, x, LOG_5);
  y = fma(y, x, LOG_6);
  y = fma(y, x, LOG_7);
  y = fma(y, x, LOG_8);
  y = fma(fround(y * x), z, fround(exponent * LN2_LOW));
  y = fround(y - 0.5 * z);
  return fma(exponent, LN2_HIGH, fround(x + y));
}
