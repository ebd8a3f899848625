import {
  allSaved,
  recomputationOf,
  type RecomputeProblem,
  savedAs,
  type SavedValues,
} from './recompute-problem.ts';

/** A choice of what is saved, and what follows from it. */
export interface SavedChoice {
  readonly saved: SavedValues;
  readonly cost: number;
  readonly peakBytes: number;
}

/** Problems with more values are not improved by exchanges, each of which looks at all of them. */
const MOST_EXCHANGED = 64;

/**
 * Chooses which values of a forward pass to keep, and which to move off the device meanwhile, so that the time that is lost,
 * also by recomputing the rest, is least within `budgetBytes`. Null if nothing that was tried fits.
 *
 * A search begins with several choices: nothing but what stands between k stretches of equal bytes (Chen et al. 2016,
 * "Training deep nets with sublinear memory cost"), for several k, kept or moved. To each it adds the values that save most for
 * their bytes, as far as the budget allows, and then exchanges one value for another where this costs less. Finding the best of
 * all choices is a knapsack problem and more (Jain et al. 2020, "Checkmate"; Beaumont et al. 2021, "Efficient combination of
 * rematerialization and offloading for training DNNs").
 */
export function chooseSaved(problem: RecomputeProblem, budgetBytes: number): SavedChoice | null {
  const all = choiceOf(problem, allSaved(problem));
  if (all.peakBytes <= budgetBytes) return all;
  let best: SavedChoice | null = null;
  for (const start of [...startsOf(problem), thinned(problem, all, budgetBytes)]) {
    if (start.peakBytes > budgetBytes) continue;
    const filled = filledUp(problem, start, budgetBytes);
    if (best === null || filled.cost < best.cost) best = filled;
  }
  return best && exchanged(problem, best, budgetBytes);
}

/** The choices of the fewest bytes among those from which searches begin: without moves, and of all. */
export function leastSaved(problem: RecomputeProblem): readonly [SavedChoice, SavedChoice] {
  const starts = startsOf(problem);
  const leastOf = (choices: readonly SavedChoice[], first: SavedChoice): SavedChoice =>
    choices.reduce((least, each) => (each.peakBytes < least.peakBytes ? each : least), first);
  const all = choiceOf(problem, allSaved(problem));
  const alone = leastOf(
    starts.filter(({ saved }) => ![...saved.values()].includes('offload')),
    all,
  );
  return [alone, leastOf(starts, alone)];
}

export function choiceOf(problem: RecomputeProblem, saved: SavedValues): SavedChoice {
  const { cost, peakBytes } = recomputationOf(problem, saved);
  return { saved, cost, peakBytes };
}

/**
 * Choices that save only what stands between k stretches, each in two ways if values may leave. The first ones save all that
 * the backward pass reads.
 */
function startsOf(problem: RecomputeProblem): readonly SavedChoice[] {
  const { values } = problem;
  const crossing = crossingValues(problem);
  const savedBytes = values.map(({ isSaved, bytes }) => (isSaved ? bytes : 0));
  const total = savedBytes.reduce((sum, bytes) => sum + bytes, 0);
  const choices = stretchCounts(values.length).map((count) => {
    const saved = new Set<number>();
    let bytes = 0;
    let cuts = 1;
    for (const [index, own] of savedBytes.entries()) {
      bytes += own;
      if (bytes < (cuts * total) / count || cuts >= count) continue;
      // Among the places nearby, the one over which the fewest bytes pass.
      for (const value of crossing[bestNear(crossing, index, problem)] ?? []) saved.add(value);
      cuts++;
    }
    return savedAs('keep', saved);
  });
  return [allSaved(problem), ...choices].flatMap((saved) => {
    const moved = offloaded(problem, saved);
    return (moved === null ? [saved] : [saved, moved]).map((each) => choiceOf(problem, each));
  });
}

/** Moves all of these values that can be moved, and those that would be kept in any case. Null if there are none. */
function offloaded({ values }: RecomputeProblem, saved: SavedValues): SavedValues | null {
  const fixed = values.keys().filter((index) => values[index]?.isFixed === true);
  const all = [...new Set([...saved.keys(), ...fixed])];
  if (!all.some((index) => values[index]?.moveCost != null)) return null;
  return new Map(all.map((index) => [index, values[index]?.moveCost == null ? 'keep' : 'offload']));
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
function crossingValues({ values }: RecomputeProblem): readonly (readonly number[])[] {
  const lastUses = values.map((_, index) => index);
  for (const [index, { inputs }] of values.entries()) {
    for (const input of inputs) lastUses[input] = index;
  }
  const open = new Set<number>();
  return values.map((_, index) => {
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
  { values }: RecomputeProblem,
): number {
  const bytesAt = (place: number): number =>
    (crossing[place] ?? []).reduce((sum, value) => sum + (values[value]?.bytes ?? 0), 0);
  let best = at;
  for (let place = Math.max(0, at - NEARBY); place <= at + NEARBY; place++) {
    if (place < crossing.length - 1 && bytesAt(place) < bytesAt(best)) best = place;
  }
  return best;
}

/** Takes values out of a choice, or moves them, always the one that costs least for its bytes, until the rest fits. */
function thinned(problem: RecomputeProblem, start: SavedChoice, budgetBytes: number): SavedChoice {
  if (problem.values.length > MOST_EXCHANGED) return start;
  let choice = start;
  while (choice.peakBytes > budgetBytes) {
    let best = choice;
    let least = Infinity;
    for (const index of choice.saved.keys()) {
      for (const way of waysOf(problem, index)) {
        if (way === 'keep') continue;
        const tried = choiceOf(problem, withWay(choice.saved, index, way));
        const price = (tried.cost - choice.cost) / (choice.peakBytes - tried.peakBytes);
        if (tried.peakBytes < choice.peakBytes && price < least) [best, least] = [tried, price];
      }
    }
    if (best === choice) return choice;
    choice = best;
  }
  return choice;
}

type Way = 'keep' | 'offload' | 'recompute';

/** What can be done with a value. */
function waysOf({ values }: RecomputeProblem, index: number): readonly Way[] {
  return ['keep', ...(values[index]?.moveCost == null ? [] : (['offload'] as const)), 'recompute'];
}

function withWay(saved: SavedValues, index: number, way: Way): SavedValues {
  const changed = new Map(saved);
  if (way === 'recompute') changed.delete(index);
  else changed.set(index, way);
  return changed;
}

/** Saves more values, or others in another way, first what saves most for its bytes, until no other one fits. */
function filledUp(problem: RecomputeProblem, start: SavedChoice, budgetBytes: number): SavedChoice {
  let choice = start;
  const open = new Map<number, number>();
  const { isRecomputed, isOffloaded } = recomputationOf(problem, start.saved);
  for (const [index, { cost, moveCost, bytes }] of problem.values.entries()) {
    const lost =
      isRecomputed[index] === true ? cost : isOffloaded[index] === true ? moveCost : null;
    if (lost !== null) open.set(index, lost / Math.max(1, bytes));
  }
  // What is saved by keeping a value is known only when it is tried, because others may then not be needed. Values are
  // tried in the order of what they save at least.
  for (const [index] of [...open].toSorted((a, b) => b[1] - a[1])) {
    for (const way of waysOf(problem, index)) {
      const tried = choiceOf(problem, withWay(choice.saved, index, way));
      if (tried.peakBytes <= budgetBytes && tried.cost < choice.cost) choice = tried;
    }
  }
  return choice;
}

/** Saves one value in the place of another, as long as this costs less. */
function exchanged(
  problem: RecomputeProblem,
  start: SavedChoice,
  budgetBytes: number,
): SavedChoice {
  if (problem.values.length > MOST_EXCHANGED) return start;
  let choice = start;
  for (const out of start.saved.keys()) {
    for (const into of problem.values.keys()) {
      if (choice.saved.has(into) || !choice.saved.has(out)) continue;
      for (const way of waysOf(problem, into)) {
        const without = withWay(choice.saved, out, 'recompute');
        const tried = choiceOf(problem, withWay(without, into, way));
        if (tried.peakBytes <= budgetBytes && tried.cost < choice.cost) choice = tried;
      }
    }
  }
  return choice === start ? start : filledUp(problem, choice, budgetBytes);
}
