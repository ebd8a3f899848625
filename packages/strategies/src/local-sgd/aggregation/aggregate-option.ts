import { ConfigError, describeValue } from '@shardwise/core/extend';
import type { Aggregation } from './aggregate.ts';

/**
 * How ranks make one outer gradient of those of all.
 * - `'mean'`: the mean. One rank that sends anything can break the run.
 * - `'median'`: the median of each element, if less than half of the ranks are faulty.
 * - `{ trimmedMean: f }`: the mean of each element without its f smallest and f largest values.
 * - `{ krum: f }`: the outer gradient that is nearest to its neighbours, if at most f are faulty.
 */
export type Aggregate =
  | 'mean'
  | 'median'
  | { readonly trimmedMean: number }
  | { readonly krum: number };

/** Throws ConfigError for a value that is none of these. */
export function aggregateRule(given: Aggregate): Aggregation {
  if (given === 'mean' || given === 'median') return { rule: given, faulty: 0 };
  if (typeof given === 'object' && given !== null) {
    const [[rule, faulty] = [], ...others] = Object.entries(given);
    const isRule = rule === 'trimmedMean' || rule === 'krum';
    if (isRule && others.length === 0 && isCount(faulty)) return { rule, faulty };
  }
  throw new ConfigError(
    {
      asked: `diloco that aggregates by ${describeValue(given)}`,
      found: 'no such rule',
      todo: "Use 'mean', 'median', { trimmedMean: 1 } or { krum: 1 }, with the number of ranks that may be faulty",
    },
    { aggregate: given },
  );
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1;
}
