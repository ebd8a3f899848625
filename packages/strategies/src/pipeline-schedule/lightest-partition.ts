/** What part `part` costs if it is elements `start` to `end` - 1; no less for more elements. */
export type PartCost = (part: number, start: number, end: number) => number;

/**
 * Cuts a chain of `count` elements into parts, none of them empty, such that the most expensive part is as cheap as can
 * be; of the cuts that do so, one whose parts are most alike (the least sum of squares). Part i is elements `boundaries[i]`
 * to `boundaries[i + 1]` - 1 of what is returned. There are as many elements as parts, or more.
 */
export function lightestPartition(count: number, parts: number, costOf: PartCost): number[] {
  // Sums of the same elements differ by rounding with where they begin.
  const most = leastMaximum(count, parts, costOf) * (1 + 1e-12);
  return mostAlike(count, parts, costOf, most);
}

/** The least that the most expensive part can cost. */
function leastMaximum(count: number, parts: number, costOf: PartCost): number {
  // best[i]: of the first i elements in as many parts as were gone through.
  let best = new Float64Array(count + 1).fill(Infinity);
  best[0] = 0;
  for (let part = 0; part < parts; part++) {
    const next = new Float64Array(count + 1).fill(Infinity);
    for (let end = part + 1; end <= count; end++) {
      let least = Infinity;
      for (let start = end - 1; start >= part; start--) {
        const cost = costOf(part, start, end);
        if (cost >= least) break;
        least = Math.min(least, Math.max(best[start] ?? Infinity, cost));
      }
      next[end] = least;
    }
    best = next;
  }
  return best[count] ?? 0;
}

/** Of the cuts into parts that cost `most` at most, that with the least sum of squares. */
function mostAlike(count: number, parts: number, costOf: PartCost, most: number): number[] {
  const cuts: Int32Array[] = [];
  let best = new Float64Array(count + 1).fill(Infinity);
  best[0] = 0;
  for (let part = 0; part < parts; part++) {
    const next = new Float64Array(count + 1).fill(Infinity);
    const cutOf = new Int32Array(count + 1);
    for (let end = part + 1; end <= count; end++) {
      for (let start = end - 1; start >= part; start--) {
        const cost = costOf(part, start, end);
        if (cost > most) break;
        const squares = (best[start] ?? Infinity) + cost * cost;
        if (squares >= (next[end] ?? 0)) continue;
        next[end] = squares;
        cutOf[end] = start;
      }
    }
    best = next;
    cuts.push(cutOf);
  }
  const boundaries = [count];
  for (const cutOf of cuts.toReversed()) boundaries.unshift(cutOf[boundaries[0] ?? 0] ?? 0);
  return boundaries;
}
