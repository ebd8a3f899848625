import type { AttentionWork } from './attention-work.ts';

/** Queries of one head, and the keys that some of them see: the first ones. */
export interface RowBlock {
  readonly start: number;
  readonly rows: number;
  readonly keys: number;
}

/** Heads that follow each other, and of which the same block of queries is done at once. */
export interface HeadRange {
  readonly first: number;
  readonly count: number;
}

/** Bytes of scores that are to stay in a core's second cache between the product that makes them and the one that reads them. */
const tileBytes = 512 * 1024;
/** Multiples of the rows that kernels multiply at once (14, or 16), and of the terms of a tile (32). */
const rowUnits = { f32: 14, bf16: 32 } as const;
const mostRows = { f32: 140, bf16: 128 } as const;

/** Queries in blocks of about one size; with fewer at once, causal attention would skip more, and pack keys more often. */
export function rowBlocks({ queries, keys, params, isNarrow }: AttentionWork): readonly RowBlock[] {
  const kind = isNarrow ? 'bf16' : 'f32';
  const unit = rowUnits[kind];
  const count = Math.ceil(queries / mostRows[kind]);
  const each = Math.ceil(queries / count / unit) * unit;
  const blocks: RowBlock[] = [];
  for (let start = 0; start < queries; start += each) {
    const rows = Math.min(each, queries - start);
    blocks.push({ start, rows, keys: params.causal ? Math.min(keys, start + rows) : keys });
  }
  return blocks;
}

/** All heads, as many at once as the scores of a block fit: all of a group, or some of one. */
export function headRanges(work: AttentionWork): readonly HeadRange[] {
  const { batch, heads, groups } = work;
  const scores = Math.max(0, ...rowBlocks(work).map(({ rows, keys }) => rows * keys));
  const fitting = Math.max(1, Math.floor(tileBytes / (4 * scores)));
  const perGroup = heads / groups;
  const each = fitting < perGroup ? fitting : Math.floor(fitting / perGroup) * perGroup;
  // A group's heads add to one gradient: no range has parts of two.
  const stretch = each < perGroup ? perGroup : batch * heads;
  const ranges: HeadRange[] = [];
  for (let start = 0; start < batch * heads; start += stretch) {
    for (let first = start; first < start + stretch; first += each) {
      ranges.push({ first, count: Math.min(each, start + stretch - first) });
    }
  }
  return ranges;
}
