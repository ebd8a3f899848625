const FRACTION_BITS = 11;
/** A power of 2 is read from a table for so many fractions of an exponent. */
const FRACTIONS = 2 ** FRACTION_BITS;
const STEP = Math.LN2 / FRACTIONS;
const STEPS_PER_UNIT = FRACTIONS / Math.LN2;
/** e to anything below it is 0 in f64. */
const LEAST_EXPONENT = -745;

const ofFractions = Float64Array.from({ length: FRACTIONS }, (_, at) => 2 ** (at / FRACTIONS));
/** Negative powers of 2. The last one is 0. */
const ofIntegers = Float64Array.from({ length: 1077 }, (_, at) => 2 ** -at);

/**
 * e to a power that is not positive, with an error of at most 1e-11 of it. Each token of each sequence is drawn from a whole
 * vocabulary, and `Math.exp` takes three times as long.
 */
export function expNegative(power: number): number {
  if (power < LEAST_EXPONENT) return 0;
  // e^x = 2^(-steps / FRACTIONS) e^rest, with a small rest, of which three terms of the series are enough. The operators of
  // bits keep whole numbers in registers for such.
  const steps = -Math.floor(power * STEPS_PER_UNIT) | 0;
  const rest = power + steps * STEP;
  const fraction = -steps & (FRACTIONS - 1);
  const integer = (steps + fraction) >> FRACTION_BITS;
  return (ofIntegers[integer] ?? 0) * (ofFractions[fraction] ?? 0) * (1 + rest * (1 + 0.5 * rest));
}

/** The largest score. Shape: scores [V]. */
export function maximum(scores: Float32Array): number {
  let most = Number.NEGATIVE_INFINITY;
  for (let token = 0; token < scores.length; token++) most = Math.max(most, scores[token] ?? 0);
  return most;
}
