// Math.log and Math.cos of JavaScript engines differ from those of C, which Python uses, in the last digit of some results. The
// C library rounds nearly all of them as these functions do, which compute with integers of many more digits.

const DIGITS = 160n;
const ONE = 1n << DIGITS;
const SCALE = 2 ** Number(DIGITS);

/** The natural logarithm of a whole number from 1 on, rounded to the nearest double. */
export function roundedLog(value: number): number {
  const power = Math.floor(Math.log2(value));
  const mantissa = (BigInt(value) << DIGITS) >> BigInt(power);
  const ratio = ((mantissa - ONE) << DIGITS) / (mantissa + ONE);
  return Number(2n * (BigInt(power) * inverseTangent(ONE / 3n) + inverseTangent(ratio))) / SCALE;
}

/** The inverse hyperbolic tangent of a number of fixed point between 0 and 1/2, by its series. */
function inverseTangent(value: bigint): bigint {
  const square = (value * value) >> DIGITS;
  let sum = 0n;
  let factor = 1n;
  for (let power = value; power > 0n; power = (power * square) >> DIGITS) {
    sum += power / factor;
    factor += 2n;
  }
  return sum;
}

/** The cosine of an angle between 0 and 4, rounded to the nearest double. */
export function roundedCos(angle: number): number {
  const exact = BigInt(angle * SCALE);
  const square = (exact * exact) >> DIGITS;
  let sum = 0n;
  let term = ONE;
  for (let index = 1n; term !== 0n; index += 2n) {
    sum += term;
    term = -((term * square) >> DIGITS) / (index * (index + 1n));
  }
  return Number(sum) / SCALE;
}
