import { type BlockSizes, rowBlocks, type RowBlock } from './row-blocks.ts';

/** The keys that each query of an item sees: those from `first` up to, but not including, `end`. */
export interface KeyLimits {
  readonly first: Int32Array;
  readonly end: Int32Array;
}

/** Consecutive keys that a block of queries is multiplied with. */
export interface KeySpan {
  readonly block: RowBlock;
  readonly start: number;
  readonly keys: number;
}

/** The limits of each query, from its range, of which only the keys that there are count. Null: no ranges are given. */
export function keyLimits(
  { queries, keys, params }: BlockSizes,
  ranges: Int32Array | null,
): KeyLimits {
  const first = new Int32Array(queries);
  const end = new Int32Array(queries);
  for (let query = 0; query < queries; query++) {
    const from = Math.max(0, ranges?.[2 * query] ?? 0);
    const most = params.causal ? Math.min(keys, query + 1) : keys;
    const to = Math.min(most, ranges?.[2 * query + 1] ?? keys);
    if (from < to) [first[query], end[query]] = [from, to];
  }
  return { first, end };
}

/** For each block of queries, the keys from the first one to the last one that any of them sees. */
export function keySpans(work: BlockSizes, { first, end }: KeyLimits): readonly KeySpan[] {
  return rowBlocks(work).map((block) => {
    let [from, to] = [work.keys, 0];
    for (let query = block.start; query < block.start + block.rows; query++) {
      const last = end[query] ?? 0;
      if (last === 0) continue;
      from = Math.min(from, first[query] ?? 0);
      to = Math.max(to, last);
    }
    const keys = plannedKeys(Math.max(0, to - from), work);
    return { block, start: Math.min(from, work.keys - keys), keys };
  });
}

/**
 * A number of keys, rounded up by at most an eighth, or to a whole vector or tile. So there are few different numbers,
 * and blocks with the same one share a plan.
 */
function plannedKeys(keys: number, { isNarrow, keys: most }: BlockSizes): number {
  const least = isNarrow ? 32 : 16;
  const step = Math.max(least, 2 ** Math.floor(Math.log2(Math.max(1, keys))) / 8);
  return Math.min(most, Math.max(1, Math.ceil(keys / step)) * step);
}
