/** Computes erf in f64: by the Maclaurin series near 0, and by the continued fraction of erfc elsewhere. */
export function erf(x: number): number {
  const a = Math.abs(x);
  if (a > 2.5) return Math.sign(x) * (1 - Math.exp(-a * a) * scaledErfc(a));
  let [sum, power] = [x, x];
  for (let n = 1; n < 80; n++) {
    power *= (-x * x) / n;
    sum += power / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}

function scaledErfc(x: number): number {
  let fraction = 0;
  for (let k = 120; k >= 1; k--) fraction = k / 2 / (x + fraction);
  return 1 / (Math.sqrt(Math.PI) * (x + fraction));
}
