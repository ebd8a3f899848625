import { ConfigError } from '@shardwise/core/extend';

/**
 * Cuts a chain into parts that follow each other such that the most expensive part is as cheap as can be; of the cuts
 * that do so, one whose parts are most alike (the least sum of squares). Costs are of any kind: parameters, operations,
 * times, bytes. Part i is elements `boundaries[i]` to `boundaries[i + 1]` - 1 of what is returned; none is empty.
 *
 * Throws ConfigError for fewer elements than parts and for costs that are no finite numbers from 0.
 */
export function balancedPartition(costs: readonly number[], parts: number): number[] {
  checkCosts(costs, parts);
  const sums = new Float64Array(costs.length + 1);
  for (const [index, cost] of costs.entries()) sums[index + 1] = (sums[index] ?? 0) + cost;
  // Sums of the same elements differ by rounding with where they begin.
  const most = leastMaximum(sums, parts) * (1 + 1e-12);
  return mostAlike(sums, parts, most);
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

/** The least that the most expensive part can cost. */
function leastMaximum(sums: Float64Array, parts: number): number {
  const count = sums.length - 1;
  // best[i]: of the first i elements in as many parts as were gone through.
  let best = sums.slice();
  for (let part = 2; part <= parts; part++) {
    const next = new Float64Array(count + 1).fill(Infinity);
    for (let end = part; end <= count; end++) {
      // What is before grows with the place of the last cut, the last part shrinks: the best is where they cross.
      let [low, high] = [part - 1, end - 1];
      while (low < high) {
        const middle = (low + high) >> 1;
        if ((best[middle] ?? 0) >= (sums[end] ?? 0) - (sums[middle] ?? 0)) high = middle;
        else low = middle + 1;
      }
      for (const cut of [low - 1, low]) {
        if (cut < part - 1) continue;
        const heaviest = Math.max(best[cut] ?? 0, (sums[end] ?? 0) - (sums[cut] ?? 0));
        next[end] = Math.min(next[end] ?? 0, heaviest);
      }
    }
    best = next;
  }
  return best[count] ?? 0;
}

/** Of the cuts into parts that cost `most` at most, that with the least sum of squares. */
function mostAlike(sums: Float64Array, parts: number, most: number): number[] {
  const count = sums.length - 1;
  const cuts: Int32Array[] = [];
  let best = new Float64Array(count + 1).fill(Infinity);
  best[0] = 0;
  for (let part = 1; part <= parts; part++) {
    const next = new Float64Array(count + 1).fill(Infinity);
    const cutOf = new Int32Array(count + 1);
    for (let end = part; end <= count; end++) {
      for (let cut = end - 1; cut >= part - 1; cut--) {
        const cost = (sums[end] ?? 0) - (sums[cut] ?? 0);
        if (cost > most) break;
        const squares = (best[cut] ?? Infinity) + cost * cost;
        if (squares >= (next[end] ?? 0)) continue;
        next[end] = squares;
        cutOf[end] = cut;
      }
    }
    best = next;
    cuts.push(cutOf);
  }
  const boundaries = [count];
  for (const cutOf of cuts.toReversed()) boundaries.unshift(cutOf[boundaries[0] ?? 0] ?? 0);
  return boundaries;
}
