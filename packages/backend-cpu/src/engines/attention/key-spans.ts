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
  /** Whether any query of the block sees any of them. */
  readonly isSeen: boolean;
  /**
   * Which of these keys the queries see. `all`: each sees all of them. `oneMoreEach`: each sees the keys that the query
   * before it sees, and one more, as in causal attention. `ranges`: what their limits say.
   */
  readonly sees: 'all' | 'oneMoreEach' | 'ranges';
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

/** Consecutive keys. */
export interface KeyStretch {
  readonly start: number;
  readonly end: number;
}

/**
 * For each block of queries, the keys from the first one to the last one that any of them sees, among those of a stretch.
 * Default: among all.
 */
export function keySpans(
  work: BlockSizes,
  limits: KeyLimits,
  stretch: KeyStretch = { start: 0, end: work.keys },
): readonly KeySpan[] {
  const { first, end } = limits;
  return rowBlocks(work).map((block) => {
    let [from, to] = [stretch.end, stretch.start];
    for (let query = block.start; query < block.start + block.rows; query++) {
      const last = end[query] ?? 0;
      if (last === 0) continue;
      from = Math.min(from, Math.max(stretch.start, first[query] ?? 0));
      to = Math.max(to, Math.min(stretch.end, last));
    }
    const isSeen = from < to;
    const most = stretch.end - stretch.start;
    const keys = plannedKeys(isSeen ? to - from : 0, { ...work, keys: most });
    const start = Math.min(isSeen ? from : stretch.end, stretch.end - keys);
    return { block, start, keys, isSeen, sees: seenBy(block, { start, keys }, limits) };
  });
}

function seenBy(
  block: RowBlock,
  { start, keys }: Pick<KeySpan, 'start' | 'keys'>,
  { first, end }: KeyLimits,
): KeySpan['sees'] {
  const endOfFirst = end[block.start] ?? 0;
  let [seesAll, seesOneMore] = [true, endOfFirst > start];
  for (let row = 0; row < block.rows; row++) {
    const [from = 0, to = 0] = [first[block.start + row], end[block.start + row]];
    if (from > start) return 'ranges';
    seesAll &&= to >= start + keys;
    seesOneMore &&= to === endOfFirst + row;
  }
  if (seesAll) return 'all';
  return seesOneMore ? 'oneMoreEach' : 'ranges';
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
