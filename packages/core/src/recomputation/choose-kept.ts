import { allSaved, recomputationOf, type RecomputeProblem } from './recompute-problem.ts';

/** A choice of what is kept, and what follows from it. */
export interface KeptChoice {
  readonly kept: ReadonlySet<number>;
  readonly cost: number;
  readonly peakBytes: number;
}

/** Problems with more values are not improved by exchanges, each of which looks at all of them. */
const MOST_EXCHANGED = 64;

/**
 * Chooses which values of a forward pass to keep, so that the rest costs least to recompute within `budgetBytes`. Null
 * if nothing that was tried fits.
 *
 * A search begins with several choices: nothing but what stands between k stretches of equal bytes (Chen et al. 2016,
 * "Training deep nets with sublinear memory cost"), for several k. To each it adds the values that save most for their
 * bytes, as far as the budget allows, and then exchanges one value for another where this costs less. Finding the best of all
 * choices is a knapsack problem and more (Jain et al. 2020, "Checkmate").
 */
export function chooseKept(problem: RecomputeProblem, budgetBytes: number): KeptChoice | null {
  const all = choiceOf(problem, allSaved(problem));
  if (all.peakBytes <= budgetBytes) return all;
  let best: KeptChoice | null = null;
  for (const start of startsOf(problem)) {
    if (start.peakBytes > budgetBytes) continue;
    const filled = filledUp(problem, start, budgetBytes);
    if (best === null || filled.cost < best.cost) best = filled;
  }
  return best && exchanged(problem, best, budgetBytes);
}

/** The choice of the fewest bytes among those from which searches begin. */
export function leastKept(problem: RecomputeProblem): KeptChoice {
  return startsOf(problem).reduce((least, each) =>
    each.peakBytes < least.peakBytes ? each : least,
  );
}

export function choiceOf(problem: RecomputeProblem, kept: ReadonlySet<number>): KeptChoice {
  const { cost, peakBytes } = recomputationOf(problem, kept);
  return { kept, cost, peakBytes };
}

/** Choices that keep only what stands between k stretches. The first keeps all that the backward pass reads. */
function startsOf(problem: RecomputeProblem): readonly KeptChoice[] {
  const crossing = crossingValues(problem);
  const savedBytes = problem.map(({ isSaved, bytes }) => (isSaved ? bytes : 0));
  const total = savedBytes.reduce((sum, bytes) => sum + bytes, 0);
  const counts = stretchCounts(problem.length);
  const choices = counts.map((count) => {
    const kept = new Set<number>();
    let bytes = 0;
    let cuts = 1;
    for (const [index, own] of savedBytes.entries()) {
      bytes += own;
      if (bytes < (cuts * total) / count || cuts >= count) continue;
      // Among the places nearby, the one over which the fewest bytes pass.
      for (const value of crossing[bestNear(crossing, index, problem)] ?? []) kept.add(value);
      cuts++;
    }
    return choiceOf(problem, kept);
  });
  return [choiceOf(problem, allSaved(problem)), ...choices];
}

/** Numbers of stretches to try: all small ones, and larger ones at growing distances. */
function stretchCounts(values: number): readonly number[] {
  const counts: number[] = [];
  for (let count = 1; count <= values; count = Math.max(count + 1, Math.round(count * 1.5))) {
    counts.push(count);
  }
  return counts;
}

/** For each place after a value, the values before it that later ones read. */
function crossingValues(problem: RecomputeProblem): readonly (readonly number[])[] {
  const lastUses = problem.map((_, index) => index);
  for (const [index, { inputs }] of problem.entries()) {
    for (const input of inputs) lastUses[input] = index;
  }
  const open = new Set<number>();
  return problem.map((_, index) => {
    open.add(index);
    for (const value of open) if ((lastUses[value] ?? 0) <= index) open.delete(value);
    return [...open];
  });
}

/** How many places before and after the intended one are looked at. */
const NEARBY = 6;

function bestNear(
  crossing: readonly (readonly number[])[],
  at: number,
  problem: RecomputeProblem,
): number {
  const bytesAt = (place: number): number =>
    (crossing[place] ?? []).reduce((sum, value) => sum + (problem[value]?.bytes ?? 0), 0);
  let best = at;
  for (let place = Math.max(0, at - NEARBY); place <= at + NEARBY; place++) {
    if (place < crossing.length - 1 && bytesAt(place) < bytesAt(best)) best = place;
  }
  return best;
}

/** Keeps more values, those first that save most for their bytes, until no other one fits. */
function filledUp(problem: RecomputeProblem, start: KeptChoice, budgetBytes: number): KeptChoice {
  let choice = start;
  const open = new Map<number, number>();
  const { isRecomputed } = recomputationOf(problem, start.kept);
  for (const [index, { cost, bytes }] of problem.entries()) {
    if (isRecomputed[index] === true) open.set(index, cost / Math.max(1, bytes));
  }
  // What is saved by keeping a value is known only when it is tried, because others may then not be needed. Values are
  // tried in the order of what they save at least.
  for (const [index] of [...open].toSorted((a, b) => b[1] - a[1])) {
    const tried = choiceOf(problem, new Set([...choice.kept, index]));
    if (tried.peakBytes <= budgetBytes && tried.cost < choice.cost) choice = tried;
  }
  return choice;
}

/** Keeps one value in the place of another, as long as this costs less. */
function exchanged(problem: RecomputeProblem, start: KeptChoice, budgetBytes: number): KeptChoice {
  if (problem.length > MOST_EXCHANGED) return start;
  let choice = start;
  for (const out of start.kept) {
    for (const into of problem.keys()) {
      if (choice.kept.has(into) || !choice.kept.has(out)) continue;
      const kept = new Set(choice.kept);
      kept.delete(out);
      kept.add(into);
      const tried = choiceOf(problem, kept);
      if (tried.peakBytes <= budgetBytes && tried.cost < choice.cost) choice = tried;
    }
  }
  return choice === start ? start : filledUp(problem, choice, budgetBytes);
}
