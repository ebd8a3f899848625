/** Relative errors of predictions, in one number each. */
export interface ErrorSummary {
  readonly mean: number;
  readonly median: number;
  /** The mean of all but the tenth with the largest errors. */
  readonly trimmedMean: number;
  readonly largest: number;
}

export function summarize(errors: readonly number[]): ErrorSummary {
  const sorted = errors.map(Math.abs).toSorted((a, b) => a - b);
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  return {
    mean: mean(sorted),
    median: sorted[sorted.length >> 1] ?? 0,
    trimmedMean: mean(sorted.slice(0, Math.ceil(0.9 * sorted.length))),
    largest: sorted.at(-1) ?? 0,
  };
}

/** Spearman's correlation of ranks. */
export function spearman(a: readonly number[], b: readonly number[]): number {
  const [x, y] = [a, b].map((values) => {
    const order = values
      .map((_, index) => index)
      .toSorted((i, j) => (values[i] ?? 0) - (values[j] ?? 0));
    const ranks: number[] = [];
    for (const [rank, index] of order.entries()) ranks[index] = rank;
    return ranks;
  });
  const n = a.length;
  const squares = (x ?? []).reduce((sum, rank, index) => sum + (rank - (y?.[index] ?? 0)) ** 2, 0);
  return 1 - (6 * squares) / (n * (n * n - 1));
}

/** The share of pairs in which the second kind has the larger value: the area under the curve of a classifier. */
export function areaUnderCurve(first: readonly number[], second: readonly number[]): number {
  let sum = 0;
  for (const a of first) for (const b of second) sum += b > a ? 1 : b === a ? 0.5 : 0;
  return sum / (first.length * second.length);
}
