import type { AttentionWork } from '../../program/work/attention-work.ts';

/** Some queries of each head, and how many keys they see. These are always the first keys. */
export interface RowBlock {
  readonly start: number;
  readonly rows: number;
  readonly keys: number;
}

/** What the sizes of blocks depend on. */
export type BlockSizes = Pick<
  AttentionWork,
  'queries' | 'keys' | 'params' | 'isNarrow' | 'keyRanges'
>;

/** Consecutive heads. The same block of queries is computed for all of them together. */
export interface HeadRange {
  readonly first: number;
  readonly count: number;
}

/**
 * The bytes of scores that should stay in a core's second-level cache between the product that makes them and the
 * product that reads them.
 */
const TILE_BYTES = 512 * 1024;
/** Blocks have a multiple of these rows: kernels multiply 14 or 16 rows at once, and a tile of bf16 has 32 terms. */
const rowUnits = { f32: 14, bf16: 32 } as const;
const mostRows = { f32: 140, bf16: 128 } as const;
/** The least number of blocks of causal attention, if one is not enough. With four, it skips three eighths. */
const leastBlocks = { f32: 2, bf16: 4 } as const;

/**
 * Divides the queries into blocks of about one size. Smaller blocks let attention skip more keys, but pack keys more
 * often, so attention that skips has blocks of half the size.
 */
export function rowBlocks({
  queries,
  keys,
  params,
  isNarrow,
  keyRanges,
}: BlockSizes): readonly RowBlock[] {
  const kind = isNarrow ? 'bf16' : 'f32';
  const unit = rowUnits[kind];
  const skips = params.causal || keyRanges !== null;
  const most = skips ? mostRows[kind] / 2 : mostRows[kind];
  const fitting = Math.ceil(queries / most);
  const count = skips && fitting > 1 ? Math.max(fitting, leastBlocks[kind]) : fitting;
  const each = Math.ceil(queries / count / unit) * unit;
  const blocks: RowBlock[] = [];
  for (let start = 0; start < queries; start += each) {
    const rows = Math.min(each, queries - start);
    blocks.push({ start, rows, keys: params.causal ? Math.min(keys, start + rows) : keys });
  }
  return blocks;
}

/**
 * Divides the heads into ranges whose scores of one block fit the cache. A range has whole groups, or some heads of one
 * group.
 */
export function headRanges(work: AttentionWork): readonly HeadRange[] {
  const { batch, heads, groups } = work;
  const scores = Math.max(0, ...rowBlocks(work).map(({ rows, keys }) => rows * keys));
  const fitting = Math.max(1, Math.floor(TILE_BYTES / (4 * scores)));
  const perGroup = heads / groups;
  const each = fitting < perGroup ? fitting : Math.floor(fitting / perGroup) * perGroup;
  // The heads of a group add to one gradient, so a range must not have parts of two groups.
  const stretch = each < perGroup ? perGroup : batch * heads;
  const ranges: HeadRange[] = [];
  for (let start = 0; start < batch * heads; start += stretch) {
    for (let first = start; first < start + stretch; first += each) {
      ranges.push({ first, count: Math.min(each, start + stretch - first) });
    }
  }
  return ranges;
}
