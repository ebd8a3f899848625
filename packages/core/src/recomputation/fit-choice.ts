import type { Node } from '../graph/node.ts';
import { ConfigError } from '../spec/errors.ts';
import { choiceOf, chooseKept, type KeptChoice, leastKept } from './choose-kept.ts';
import type { PassValues } from './pass-values.ts';
import { allSaved, recomputationOf } from './recompute-problem.ts';

/** A choice, and the bytes that a pass takes with it by its plan. */
interface PlannedChoice {
  readonly kept: ReadonlySet<number>;
  readonly cost: number;
  readonly stretches: ReadonlyMap<Node, number>;
  readonly plannedBytes: number;
}

/** A choice whose plan keeps within a budget. */
export interface FittedChoice extends PlannedChoice {
  /** The bytes of the pass if nothing were recomputed. */
  readonly plannedBytesOfNone: number;
}

/** The most plans that are made while the search narrows its own budget down. */
const MOST_HALVINGS = 8;
/** The most values that are tried to be kept after that. */
const MOST_ADDED = 6;

/**
 * Finds the choice of least cost whose plan takes at most `budgetBytes`. The search estimates bytes from the values alone, so
 * its own budget is varied until the plan fits: `bytesWith` makes the plan with these nodes recomputed. Throws ConfigError
 * with the least that was found if nothing fits.
 */
export function fitChoice(
  values: PassValues,
  budgetBytes: number,
  bytesWith: (stretches: ReadonlyMap<Node, number>) => number,
): FittedChoice {
  const { problem } = values;
  const plannedOf = ({ kept, cost }: KeptChoice): PlannedChoice => {
    const stretches = values.stretchesOf(recomputationOf(problem, kept));
    return { kept, cost, stretches, plannedBytes: bytesWith(stretches) };
  };
  const none = plannedOf(choiceOf(problem, allSaved(problem)));
  const plannedBytesOfNone = none.plannedBytes;
  if (none.plannedBytes <= budgetBytes) return { ...none, plannedBytesOfNone };
  const least = leastKept(problem);
  const tried = new Map([[keyOf(none.kept), none]]);
  const planOnce = (choice: KeptChoice): PlannedChoice => {
    const key = keyOf(choice.kept);
    const planned = tried.get(key) ?? plannedOf(choice);
    tried.set(key, planned);
    return planned;
  };
  planOnce(least);
  let [low, high] = [least.peakBytes, choiceOf(problem, none.kept).peakBytes];
  for (let halving = 0; halving < MOST_HALVINGS; halving++) {
    const middle = (low + high) / 2;
    const choice = chooseKept(problem, middle);
    if (choice === null || planOnce(choice).plannedBytes <= budgetBytes) low = middle;
    else high = middle;
  }
  let best = cheapest(tried.values(), budgetBytes);
  if (best === null) {
    const bytes = Array.from(tried.values(), ({ plannedBytes }) => plannedBytes);
    throw tooSmall(budgetBytes, Math.min(...bytes));
  }
  for (let added = 0; added < MOST_ADDED; added++) {
    const value = mostToSave(values, best, budgetBytes - best.plannedBytes, tried);
    if (value === null) break;
    planOnce(choiceOf(problem, new Set([...best.kept, value])));
    best = cheapest(tried.values(), budgetBytes) ?? best;
  }
  return { ...best, plannedBytesOfNone };
}

/** The choice of least cost among those that fit. */
function cheapest(choices: Iterable<PlannedChoice>, budgetBytes: number): PlannedChoice | null {
  let best: PlannedChoice | null = null;
  for (const choice of choices) {
    if (choice.plannedBytes > budgetBytes) continue;
    if (best === null || choice.cost < best.cost) best = choice;
  }
  return best;
}

/** The value of at most so many bytes that costs most to recompute, and was not tried. */
function mostToSave(
  { problem }: PassValues,
  { kept }: PlannedChoice,
  bytes: number,
  tried: ReadonlyMap<string, PlannedChoice>,
): number | null {
  const { isRecomputed } = recomputationOf(problem, kept);
  let best: number | null = null;
  for (const [index, value] of problem.entries()) {
    if (isRecomputed[index] !== true || value.bytes > bytes) continue;
    if (best !== null && value.cost <= (problem[best]?.cost ?? 0)) continue;
    if (!tried.has(keyOf(new Set([...kept, index])))) best = index;
  }
  return best;
}

function keyOf(kept: ReadonlySet<number>): string {
  return [...kept].toSorted((a, b) => a - b).join();
}

function tooSmall(bytes: number, leastBytes: number): ConfigError {
  return new ConfigError(
    {
      asked: `an activationMemoryBudget of ${bytes} bytes`,
      found: `a pass that needs at least ${leastBytes} bytes, whatever is recomputed`,
      todo: `Give at least ${leastBytes} bytes, or use a smaller batch`,
    },
    { bytes, leastBytes },
  );
}
