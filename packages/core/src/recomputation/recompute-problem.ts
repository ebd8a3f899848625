/** A value of a forward pass that has memory of its own, as far as keeping or recomputing it goes. */
interface PassValue {
  readonly bytes: number;
  /** What computing it once more takes, in floating-point operations or their like. */
  readonly cost: number;
  /** The values that it is computed from, by their indices, which are smaller. */
  readonly inputs: readonly number[];
  /** Whether the backward pass reads it. */
  readonly isSaved: boolean;
  /** Whether it is kept in any case, as values are that other ranks have sent. */
  readonly isFixed: boolean;
}

/** The values of a forward pass in program order, of which some are kept and the others recomputed. */
export type RecomputeProblem = readonly PassValue[];

/** What follows from keeping some of the values. */
export interface Recomputation {
  /** Whether the backward pass recomputes the value. A value that is neither kept nor recomputed is not needed. */
  readonly isRecomputed: readonly boolean[];
  /**
   * For each value, the number of its stretch. Recomputing a stretch reads only its own values and kept ones, so that
   * nothing of one stretch is in memory while the backward pass is in another.
   */
  readonly stretches: readonly number[];
  readonly cost: number;
  /** The bytes that are kept, together with those of the stretch that is recomputed, when they are most. */
  readonly peakBytes: number;
}

/** Says what the backward pass recomputes if it keeps these values. Fixed ones are kept, too. */
export function recomputationOf(
  problem: RecomputeProblem,
  kept: ReadonlySet<number>,
): Recomputation {
  const isKept = problem.map(({ isFixed }, index) => isFixed || kept.has(index));
  const isRecomputed = problem.map(({ isSaved }, index) => isSaved && isKept[index] !== true);
  const isRead = problem.map(({ isSaved }) => isSaved);
  /** The last value that is recomputed from each, or reads it in the forward pass. */
  const lastUses = problem.map((_, index) => index);
  for (let index = problem.length - 1; index >= 0; index--) {
    for (const input of problem[index]?.inputs ?? []) {
      lastUses[input] = Math.max(lastUses[input] ?? 0, index);
      if (isRecomputed[index] !== true) continue;
      isRead[input] = true;
      if (isKept[input] !== true) isRecomputed[input] = true;
    }
  }
  const stretches = stretchesOf(problem, isRecomputed, lastUses);
  const last = stretches.at(-1) ?? 0;
  const keptBytes = new Float64Array(last + 1);
  const madeBytes = new Float64Array(last + 1);
  let cost = 0;
  for (const [index, value] of problem.entries()) {
    const stretch = stretches[index] ?? 0;
    if (isRecomputed[index] === true) {
      cost += value.cost;
      madeBytes[stretch] = (madeBytes[stretch] ?? 0) + value.bytes;
    } else if (isRead[index] === true) {
      keptBytes[stretch] = (keptBytes[stretch] ?? 0) + value.bytes;
    }
  }
  let peakBytes = 0;
  let before = 0;
  for (const [stretch, bytes] of keptBytes.entries()) {
    before += bytes;
    peakBytes = Math.max(peakBytes, before + (madeBytes[stretch] ?? 0));
  }
  return { isRecomputed, stretches, cost, peakBytes };
}

/** Numbers stretches: one ends where no value that is recomputed is used later. */
function stretchesOf(
  problem: RecomputeProblem,
  isRecomputed: readonly boolean[],
  lastUses: readonly number[],
): readonly number[] {
  let reach = -1;
  let stretch = 0;
  return problem.map((_, index) => {
    if (index > reach && index > 0) stretch++;
    if (isRecomputed[index] === true) reach = Math.max(reach, lastUses[index] ?? index);
    return stretch;
  });
}

/** The values that are kept if nothing is recomputed. */
export function allSaved(problem: RecomputeProblem): ReadonlySet<number> {
  return new Set(problem.keys().filter((index) => problem[index]?.isSaved === true));
}
