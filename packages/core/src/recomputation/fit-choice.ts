import { ConfigError } from '../spec/errors.ts';
import { choiceOf, chooseSaved, leastSaved, type SavedChoice } from './choose-saved.ts';
import type { PassValues, SavedNodes } from './pass-values.ts';
import { allSaved, recomputationOf, type SavedValues } from './recompute-problem.ts';

/** A choice, and the bytes that a pass takes with it by its plan. */
interface PlannedChoice {
  readonly saved: SavedValues;
  readonly cost: number;
  readonly nodes: SavedNodes;
  readonly plannedBytes: number;
}

/** A choice whose plan keeps within a budget. */
export interface FittedChoice extends PlannedChoice {
  /** The bytes of the pass if everything were kept. */
  readonly plannedBytesOfNone: number;
}

/** The most plans that are made while the search narrows its own budget down. */
const MOST_HALVINGS = 8;
/** The most values that are tried to be kept after that. */
const MOST_ADDED = 6;

/**
 * Finds the choice of least cost whose plan takes at most `budgetBytes`. The search estimates bytes from the values alone, so
 * its own budget is varied until the plan fits: `bytesWith` makes the plan with these nodes moved or recomputed. Throws ConfigError
 * with the least that was found if nothing fits.
 */
export function fitChoice(
  values: PassValues,
  budgetBytes: number,
  bytesWith: (nodes: SavedNodes) => number,
): FittedChoice {
  const { problem } = values;
  const plannedOf = ({ saved, cost }: SavedChoice): PlannedChoice => {
    const nodes = values.nodesOf(recomputationOf(problem, saved));
    return { saved, cost, nodes, plannedBytes: bytesWith(nodes) };
  };
  const none = plannedOf(choiceOf(problem, allSaved(problem)));
  const plannedBytesOfNone = none.plannedBytes;
  if (none.plannedBytes <= budgetBytes) return { ...none, plannedBytesOfNone };
  const [alone, least] = leastSaved(problem);
  const tried = new Map([[keyOf(none.saved), none]]);
  const planOnce = (choice: SavedChoice): PlannedChoice => {
    const key = keyOf(choice.saved);
    const planned = tried.get(key) ?? plannedOf(choice);
    tried.set(key, planned);
    return planned;
  };
  // What is least by the estimate need not be least by its plan.
  planOnce(alone);
  planOnce(least);
  let [low, high] = [least.peakBytes, choiceOf(problem, none.saved).peakBytes];
  for (let halving = 0; halving < MOST_HALVINGS; halving++) {
    const middle = (low + high) / 2;
    const choice = chooseSaved(problem, middle);
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
    planOnce(choiceOf(problem, kept(best.saved, value)));
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

/** The value of at most so many bytes that costs most to recompute or to move, and was not tried. */
function mostToSave(
  { problem }: PassValues,
  { saved }: PlannedChoice,
  bytes: number,
  tried: ReadonlyMap<string, PlannedChoice>,
): number | null {
  const { isRecomputed, isOffloaded } = recomputationOf(problem, saved);
  let best: number | null = null;
  let most = 0;
  for (const [index, value] of problem.values.entries()) {
    const moveCost = isOffloaded[index] === true ? (value.moveCost ?? 0) : 0;
    const cost = isRecomputed[index] === true ? value.cost : moveCost;
    if (value.bytes > bytes || cost <= most || tried.has(keyOf(kept(saved, index)))) continue;
    [best, most] = [index, cost];
  }
  return best;
}

function kept(saved: SavedValues, index: number): SavedValues {
  return new Map([...saved, [index, 'keep']]);
}

function keyOf(saved: SavedValues): string {
  return [...saved]
    .toSorted(([a], [b]) => a - b)
    .flat()
    .join();
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
