/**
 * Returns the cost of part `part` if it consists of elements `start` to `end` - 1. More elements must not cost less.
 */
export type PartCost = (part: number, start: number, end: number) => number;

/**
 * Cuts a chain of `count` elements into non-empty parts so that the most expensive part is as cheap as possible. If
 * several starts do this, it takes one whose parts are the most equal (the least sum of squares). Part i consists of
 * elements `boundaries[i]` to `boundaries[i + 1]` - 1 of the result. There must be at least as many elements as parts.
 */
export function lightestPartition(count: number, parts: number, costOf: PartCost): number[] {
  // The sum of the same elements differs by rounding, depending on where the sum begins.
  const most = leastMaximum(count, parts, costOf) * (1 + 1e-12);
  return mostAlike(count, parts, costOf, most);
}

/** Returns the least possible cost of the most expensive part. */
function leastMaximum(count: number, parts: number, costOf: PartCost): number {
  // best[i] is the least cost for the first i elements in the number of parts considered so far.
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

/** Of the starts whose parts cost at most `most`, returns the one with the least sum of squares. */
function mostAlike(count: number, parts: number, costOf: PartCost, most: number): number[] {
  const starts: Int32Array[] = [];
  let best = new Float64Array(count + 1).fill(Infinity);
  best[0] = 0;
  for (let part = 0; part < parts; part++) {
    const next = new Float64Array(count + 1).fill(Infinity);
    const startOf = new Int32Array(count + 1);
    for (let end = part + 1; end <= count; end++) {
      for (let start = end - 1; start >= part; start--) {
        const cost = costOf(part, start, end);
        if (cost > most) break;
        const squares = (best[start] ?? Infinity) + cost * cost;
        if (squares >= (next[end] ?? 0)) continue;
        next[end] = squares;
        startOf[end] = start;
      }
    }
    best = next;
    starts.push(startOf);
  }
  const boundaries = [count];
  for (const startOf of starts.toReversed()) boundaries.unshift(startOf[boundaries[0] ?? 0] ?? 0);
  return boundaries;
}
