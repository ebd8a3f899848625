import { at } from '../../../interpreter/nd-array.ts';
import { f32, i32, uniform } from '../host-value.ts';
import type { OpCase } from '../op-case.ts';
import { indices, type OpExample, varied } from '../op-example.ts';
import { define } from './attention.ts';

export const pagedAttentionExample: OpExample<'pagedAttention'> = {
  params: { scale: 0.7, rounding: 'none' },
  inputs: [
    varied([2, 2, 1, 2]),
    varied([3, 2, 1, 2]),
    varied([3, 2, 1, 1]),
    indices([2, 2], [2, 0, 2, 1]),
    indices([2, 1, 2], [0, 3, 0, 4]),
  ],
};

/** The sizes of a case. Letters: those of the op. */
interface Setting {
  readonly title: string;
  readonly heads?: number;
  readonly groups?: number;
  readonly queries: number;
  readonly width?: number;
  readonly valueWidth?: number;
  readonly blockSize: number;
  /** The blocks of each item. All items have as many. */
  readonly table: readonly (readonly number[])[];
  /** The keys that a query of an item sees. */
  readonly ranges: (query: number, item: number) => readonly [first: number, end: number];
}

const settings: readonly Setting[] = [
  {
    title: 'one query and one key',
    queries: 1,
    blockSize: 1,
    table: [[0]],
    ranges: () => [0, 1],
  },
  {
    title: 'single queries of sequences of other lengths, whose blocks lie anywhere',
    heads: 4,
    groups: 2,
    queries: 1,
    width: 16,
    blockSize: 16,
    table: [
      [6, 1, 3],
      [0, 5, 2],
      [4, 4, 4],
    ],
    ranges: (_, item) => [0, [48, 19, 1][item] ?? 0],
  },
  {
    title: 'a chunk of a prompt, and a prefix that two items share',
    heads: 2,
    queries: 9,
    width: 5,
    valueWidth: 3,
    blockSize: 4,
    table: [
      [2, 0, 5, 1, 7],
      [2, 0, 6, 4, 3],
    ],
    ranges: (query, item) => [0, 8 + query + item],
  },
  {
    title: 'windows that begin in the middle of a block',
    heads: 2,
    queries: 20,
    width: 8,
    blockSize: 3,
    table: [[8, 7, 6, 5, 4, 3, 2, 1, 0]],
    ranges: (query) => [Math.max(0, query - 6), query + 1],
  },
  {
    title: 'many queries with many keys',
    heads: 3,
    queries: 90,
    width: 24,
    blockSize: 7,
    table: [Array.from({ length: 25 }, (_, block) => (block * 7) % 25)],
    ranges: (query) => [0, 85 + query],
  },
  {
    title: 'queries that see no key',
    queries: 3,
    blockSize: 2,
    table: [[1, 0]],
    ranges: (query) => (query === 1 ? [0, 3] : [2, 2]),
  },
  { title: 'no blocks', queries: 2, blockSize: 4, table: [[]], ranges: () => [0, 1] },
  { title: 'no items', queries: 2, blockSize: 4, table: [], ranges: () => [0, 1] },
];

/** Allows for f32 sums in another order, and for exponentials. */
const tolerance = { rtol: 2e-5, atol: 5e-6 };

/** Cases of attention through a table. The blocks of each item are put behind each other before the definition is used. */
export function pagedAttentionCases(): readonly OpCase[] {
  return settings.map((setting): OpCase => {
    const { title, heads = 1, queries, width = 4, valueWidth = 4, blockSize, table } = setting;
    const { groups = heads, ranges } = setting;
    const [items, blocks] = [table.length, table[0]?.length ?? 0];
    const count = Math.max(0, ...table.flat()) + 1;
    const scale = 1.2 / Math.sqrt(width);
    const q = uniform([items, heads, queries, width], 1);
    const k = uniform([count, blockSize, groups, width], 2);
    const v = uniform([count, blockSize, groups, valueWidth], 3);
    const keys = blocks * blockSize;
    /** Shape: kept [N, P, G, D] -> [B, G, M * P, D]. */
    const gathered = (kept: typeof k, features: number): typeof k => {
      const all = f32([items, groups, keys, features], 0);
      for (const [item, row] of table.entries()) {
        for (let key = 0; key < keys; key++) {
          const block = row[Math.floor(key / blockSize)] ?? 0;
          const slot = block * blockSize + (key % blockSize);
          for (let group = 0; group < groups; group++) {
            const [from, to] = [slot * groups + group, (item * groups + group) * keys + key];
            for (let i = 0; i < features; i++) {
              all.values[to * features + i] = at(kept.values, from * features + i);
            }
          }
        }
      }
      return all;
    };
    const { attention } = define(
      {
        q,
        k: gathered(k, width),
        v: gathered(v, valueWidth),
        dy: uniform([items, heads, queries, valueWidth], 4),
        mask: undefined,
        ranges,
      },
      { causal: false, hasKeyRanges: true, scale, rounding: 'none' },
    );
    const bounds = table.map((_, item) =>
      Array.from({ length: queries }, (__, query) => ranges(query, item)),
    );
    return {
      title,
      operation: { op: 'pagedAttention', params: { scale, rounding: 'none' } },
      inputs: [
        q,
        k,
        v,
        i32([items, blocks], table.flat()),
        i32([items, queries, 2], bounds.flat(2)),
      ],
      expected: attention,
      tolerance,
    };
  });
}
