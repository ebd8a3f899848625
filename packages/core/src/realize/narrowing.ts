import type { Observation } from './related-sizes.ts';

/** Which runs a plan is made for, where none could be made for all sizes. */
export interface Narrowing {
  /** Whether sizes stay multiples of what divides all that were seen. */
  readonly keepsDivisors: boolean;
  /** Sizes that differ by multiples of it are alike: halves of even and of odd sizes have two formulas. */
  readonly modulus: number;
}

export const allRuns: Narrowing = { keepsDivisors: false, modulus: 1 };

/** Five layers that each halve sizes. */
const mostModulus = 32;

/** Fewer runs; null where there are no fewer. */
export function narrower({ keepsDivisors, modulus }: Narrowing): Narrowing | null {
  if (!keepsDivisors) return { keepsDivisors: true, modulus };
  return modulus < mostModulus ? { keepsDivisors, modulus: 2 * modulus } : null;
}

/** The runs whose sizes are like these. */
export function runsLike(
  sizes: Observation,
  observations: readonly Observation[],
  { modulus }: Narrowing,
): readonly Observation[] {
  const isLike = (run: Observation): boolean =>
    run.every((size, place) => (size - (sizes[place] ?? 0)) % modulus === 0);
  return modulus === 1 ? observations : observations.filter(isLike);
}
