import { checkOptions, ConfigError, option, type OptionRule } from '@shardwise/core/extend';
import { lightestPartition } from './lightest-partition.ts';

const cost: OptionRule<number> = {
  fits: (value) => typeof value === 'number',
  expected: 'a number',
};
const costsRules = { costs: option.required(option.listOf(cost)) };

/**
 * Cuts a chain into consecutive parts so that the most expensive part is as cheap as possible. If several cuts
 * do this, it takes one whose parts are the most equal (the least sum of squares). Costs may be parameters,
 * operations, times or bytes. Part i consists of the elements `boundaries[i]` to `boundaries[i + 1]` - 1 of the
 * result. No part is empty.
 *
 * Throws ConfigError for fewer elements than parts, and for costs that are not finite numbers from 0.
 */
export function balancedPartition(costs: readonly number[], parts: number): number[] {
  checkOptions('balancedPartition', { costs }, costsRules);
  checkCosts(costs, parts);
  const sums = new Float64Array(costs.length + 1);
  for (const [index, cost] of costs.entries()) sums[index + 1] = (sums[index] ?? 0) + cost;
  return lightestPartition(
    costs.length,
    parts,
    (_, start, end) => (sums[end] ?? 0) - (sums[start] ?? 0),
  );
}

function checkCosts(costs: readonly number[], parts: number): void {
  const asked = `a balanced partition of ${costs.length} elements into ${parts} parts`;
  if (!Number.isSafeInteger(parts) || parts < 1) {
    const found = `${parts} parts`;
    throw new ConfigError({ asked, found, todo: 'Give a whole number from 1' }, { parts });
  }
  if (costs.length < parts) {
    throw new ConfigError(
      {
        asked,
        found: 'fewer elements than parts',
        todo: `Take ${costs.length} parts at most, or cut the elements finer`,
      },
      { elements: costs.length, parts },
    );
  }
  const wrong = costs.findIndex((cost) => !(Number.isFinite(cost) && cost >= 0));
  if (wrong < 0) return;
  throw new ConfigError(
    { asked, found: `a cost of ${costs[wrong]} at ${wrong}`, todo: 'Give finite numbers from 0' },
    { index: wrong, cost: costs[wrong] },
  );
}
