const { fround } = Math;

/**
 * a * b + c of three float32 values with one rounding, as a float32. The product is exact in float64. Only a sum
 * that float64 rounds to the middle between two float32 values would be rounded twice, and must be corrected.
 */
export function fusedMultiplyAdd(a: number, b: number, c: number): number {
  const product = a * b;
  const sum = product + c;
  const rounded = fround(sum);
  const other = rounded + 2 * (sum - rounded);
  if (other === rounded || fround(other) !== other) return rounded;
  const added = sum - product;
  const lost = product - (sum - added) + (c - added);
  if (lost === 0) return rounded;
  return lost > 0 === other > rounded ? other : rounded;
}
