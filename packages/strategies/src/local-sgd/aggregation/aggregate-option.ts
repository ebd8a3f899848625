import { ConfigError, describeValue } from '@shardwise/core/extend';
import type { Aggregation } from './aggregate.ts';

/**
 * How ranks make one outer gradient of those of all.
 * - `'mean'`: the mean. One rank that sends anything can break the run.
 * - `'median'`: the median of each element, if less than half of the ranks are faulty.
 * - `{ trimmedMean: f }`: the mean of each element without its f smallest and f largest values.
 * - `{ krum: f }`: the outer gradient that is nearest to its neighbours, if at most f are faulty.
 * - `{ multiKrum: f }`: the mean of all but the f outer gradients that are farthest from their neighbours.
 * - `{ nearestNeighborMixing: f }`: the trimmed mean after each one is replaced by its mean with its neighbours, of which
 *   the f farthest are left out. It does the least harm where ranks have different data.
 */
export type Aggregate =
  | 'mean'
  | 'median'
  | { readonly trimmedMean: number }
  | { readonly krum: number }
  | { readonly multiKrum: number }
  | { readonly nearestNeighborMixing: number };

const rulesWithCount = ['trimmedMean', 'krum', 'multiKrum', 'nearestNeighborMixing'] as const;

/** Throws ConfigError for a value that is none of these. */
export function aggregateRule(given: Aggregate): Aggregation {
  if (given === 'mean' || given === 'median') return { rule: given, faulty: 0 };
  if (typeof given === 'object' && given !== null) {
    const [[name, faulty] = [], ...others] = Object.entries(given);
    const rule = rulesWithCount.find((each) => each === name);
    if (rule !== undefined && others.length === 0 && isCount(faulty)) return { rule, faulty };
  }
  throw new ConfigError(
    {
      asked: `diloco that aggregates by ${describeValue(given)}`,
      found: 'no such rule',
      todo: "Use 'mean', 'median', { trimmedMean: 1 }, { krum: 1 }, { multiKrum: 1 } or { nearestNeighborMixing: 1 }, with the number of ranks that may be faulty",
    },
    { aggregate: given },
  );
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1;
}
