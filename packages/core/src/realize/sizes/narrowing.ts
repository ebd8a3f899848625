import type { Observation } from './related-sizes.ts';

/** The runs that a plan is made for, if none could be made for all sizes. */
export interface Narrowing {
  /** Whether the plan is only for sizes that are multiples of the numbers that divide all sizes seen. */
  readonly keepsDivisors: boolean;
  /**
   * The plan is for sizes that differ by multiples of this number. For example, the halves of even sizes and of odd
   * sizes have different formulas.
   */
  readonly modulus: number;
}

export const allRuns: Narrowing = { keepsDivisors: false, modulus: 1 };

/** The largest modulus that is tried. It suffices for five layers that each halve a size. */
const MAX_MODULUS = 32;

/** The next narrowing, which is for fewer runs. Null if there is none. */
export function narrower({ keepsDivisors, modulus }: Narrowing): Narrowing | null {
  if (!keepsDivisors) return { keepsDivisors: true, modulus };
  return modulus < MAX_MODULUS ? { keepsDivisors, modulus: 2 * modulus } : null;
}

/** The runs whose sizes differ from `sizes` by multiples of the modulus. */
export function runsLike(
  sizes: Observation,
  observations: readonly Observation[],
  { modulus }: Narrowing,
): readonly Observation[] {
  const isLike = (run: Observation): boolean =>
    run.every((size, place) => (size - (sizes[place] ?? 0)) % modulus === 0);
  return modulus === 1 ? observations : observations.filter(isLike);
}
