import type { ExpertsDescription } from '../model/transformer.ts';

/** How much the tokens of an expert deviate from the mean, if a router's counts are not given. */
const DEVIATION = 0.1;

/**
 * How many times the mean the busiest of some ranks computes and receives, of which each has as many experts. Shares say
 * it exactly. Otherwise it is what the largest of as many normal numbers is expected to be: the more experts a rank has,
 * the less its sum deviates.
 */
export function expertLoad({ count, shares }: ExpertsDescription, ranks: number): number {
  if (shares === undefined) {
    const deviation = DEVIATION / Math.sqrt(count / ranks);
    return 1 + deviation * Math.sqrt(2 * Math.log(ranks));
  }
  const sums = Array.from({ length: ranks }, () => 0);
  for (const [expert, share] of shares.entries()) {
    const rank = Math.floor((expert * ranks) / count);
    sums[rank] = (sums[rank] ?? 0) + share;
  }
  const total = sums.reduce((sum, each) => sum + each, 0);
  return (ranks * Math.max(...sums)) / total;
}
