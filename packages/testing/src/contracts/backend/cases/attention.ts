import { elementCount } from '@shardwise/core/base';
import type { AttentionParams, Shape } from '@shardwise/core/spec';
import { at, type NdArray } from '../../../interpreter/nd-array.ts';
import { f32, i32, uniform } from '../host-value.ts';
import type { OpCase, OpCases } from '../op-case.ts';

type AttentionOp =
  | 'attention'
  | 'attentionLogSumExp'
  | 'attentionQueryGrad'
  | 'attentionKeyGrad'
  | 'attentionValueGrad';

/** The sizes and options of a case. */
interface Setting {
  readonly title: string;
  readonly batch?: number;
  readonly heads?: number;
  readonly groups?: number;
  readonly queries: number;
  readonly keys: number;
  readonly width?: number;
  readonly valueWidth?: number;
  readonly causal?: boolean;
  /** Whether all items of the batch share one head of keys and values. */
  readonly isShared?: boolean;
  readonly mask?: Shape;
  /** Whether the mask hides a key from a query. Otherwise the mask contains numbers that are added to the scores. */
  readonly hides?: (query: number, key: number) => boolean;
  /** The keys that a query of an item of the batch sees, if these are a range. */
  readonly ranges?: (query: number, item: number) => readonly [first: number, end: number];
  /** Whether all items of the batch have the same ranges. */
  readonly hasCommonRanges?: boolean;
}

const settings: readonly Setting[] = [
  { title: 'one query and one key', queries: 1, keys: 1 },
  { title: 'one query', queries: 1, keys: 37, heads: 3 },
  { title: 'one key', queries: 5, keys: 1 },
  { title: 'odd sizes', batch: 2, heads: 3, queries: 7, keys: 11, width: 5, valueWidth: 3 },
  { title: 'causal', batch: 2, heads: 2, queries: 33, keys: 33, width: 8, causal: true },
  { title: 'causal, fewer keys', queries: 19, keys: 6, causal: true },
  { title: 'causal, fewer queries', queries: 6, keys: 19, causal: true },
  { title: 'causal, many rows', queries: 150, keys: 150, width: 16, causal: true },
  { title: 'many rows', queries: 130, keys: 261, width: 33, valueWidth: 65 },
  { title: 'heads in groups', batch: 2, heads: 6, groups: 2, queries: 5, keys: 9, causal: true },
  { title: 'keys for all items', batch: 3, heads: 2, queries: 4, keys: 5, isShared: true },
  {
    title: 'heads in groups, keys for all items',
    batch: 2,
    heads: 4,
    groups: 2,
    queries: 5,
    keys: 7,
    isShared: true,
  },
  { title: 'a mask for all', heads: 2, queries: 9, keys: 17, mask: [1, 1, 9, 17] },
  { title: 'a mask of keys', batch: 2, heads: 2, queries: 9, keys: 17, mask: [2, 1, 1, 17] },
  { title: 'a mask of heads', batch: 2, heads: 2, queries: 4, keys: 5, mask: [1, 2, 4, 5] },
  { title: 'a mask of each', batch: 2, heads: 2, queries: 4, keys: 5, mask: [2, 2, 4, 5] },
  {
    title: 'queries that see no key',
    heads: 2,
    queries: 5,
    keys: 20,
    mask: [1, 1, 5, 20],
    hides: (query, key) => query % 2 === 1 || key > 12,
  },
  {
    title: 'a range of keys for each query',
    batch: 2,
    heads: 4,
    groups: 2,
    queries: 9,
    keys: 13,
    ranges: (query, item) => [query - item, Math.min(13, query + 3 * item)],
  },
  {
    title: 'ranges beyond the keys, and empty ones',
    heads: 2,
    queries: 6,
    keys: 5,
    ranges: (query) => [query - 4, query % 2 === 0 ? query + 3 : query - 4],
  },
  {
    title: 'ranges of many rows, for all items',
    batch: 2,
    heads: 2,
    groups: 1,
    queries: 150,
    keys: 160,
    width: 16,
    valueWidth: 24,
    ranges: (query) => [Math.max(0, query - 60), query + 10],
    hasCommonRanges: true,
  },
  {
    title: 'documents and a mask of keys',
    batch: 2,
    heads: 2,
    queries: 130,
    keys: 130,
    mask: [2, 1, 1, 130],
    causal: true,
    hides: (_, key) => key % 7 === 3 || (key > 40 && key < 80),
    ranges: (query) => [40 * Math.floor(query / 40), 40 * Math.floor(query / 40) + 40],
  },
  {
    title: 'causal, a mask of keys',
    batch: 2,
    heads: 2,
    queries: 140,
    keys: 140,
    causal: true,
    mask: [2, 1, 1, 140],
    hides: (_, key) => key < 5,
  },
  {
    title: 'ranges and a mask of each, keys for all items',
    batch: 2,
    heads: 2,
    queries: 12,
    keys: 20,
    isShared: true,
    mask: [2, 2, 12, 20],
    ranges: (query, item) => [item * 3, query + 4],
  },
  { title: 'ranges of no keys', queries: 3, keys: 0, ranges: () => [0, 2] },
  { title: 'no queries', queries: 0, keys: 3 },
  { title: 'no keys', queries: 3, keys: 0 },
  { title: 'no items', batch: 0, queries: 2, keys: 3 },
  { title: 'values without features', queries: 2, keys: 3, valueWidth: 0 },
];

/** Allows for f32 sums in another order, and for exponentials. */
const tolerance = { rtol: 2e-5, atol: 5e-6 };

/** Cases of attention and its gradients. Their results are computed in f64 by the definition, one query at a time. */
export const attentionCases: OpCases<AttentionOp> = {
  attention: () => settings.map((setting) => caseOf('attention', setting)),
  attentionLogSumExp: () => settings.map((setting) => caseOf('attentionLogSumExp', setting)),
  attentionQueryGrad: () => settings.map((setting) => caseOf('attentionQueryGrad', setting)),
  attentionKeyGrad: () => settings.map((setting) => caseOf('attentionKeyGrad', setting)),
  attentionValueGrad: () => settings.map((setting) => caseOf('attentionValueGrad', setting)),
};

const defined = new Map<Setting, ReturnType<typeof define>>();

function caseOf(op: AttentionOp, setting: Setting): OpCase {
  const { title, batch = 1, heads = 1, queries, keys, width = 4, valueWidth = 4 } = setting;
  const { groups = heads, causal = false, isShared = false, mask, hides, ranges } = setting;
  const items = isShared ? 1 : batch;
  const params: AttentionParams = {
    causal,
    hasKeyRanges: ranges !== undefined,
    scale: 1.2 / Math.sqrt(width),
    rounding: 'none',
  };
  const rows = [batch, heads, queries];
  const [q, k] = [uniform([...rows, width], 1), uniform([items, groups, keys, width], 2)];
  const [v, dy] = [
    uniform([items, groups, keys, valueWidth], 3),
    uniform([...rows, valueWidth], 4),
  ];
  const added = mask && maskOf(mask, hides);
  // The ops of a setting are parts of one definition, and several suites have its cases.
  const results = defined.get(setting) ?? define({ q, k, v, dy, mask: added, ranges }, params);
  defined.set(setting, results);
  const limits = [added, rangesOf(setting)].filter((limit) => limit !== undefined);
  const inputs = {
    attention: [q, k, v],
    attentionLogSumExp: [q, k],
    attentionQueryGrad: [q, k, v, dy, results.attentionLogSumExp, results.delta],
    attentionKeyGrad: [q, k, v, dy, results.attentionLogSumExp, results.delta],
    attentionValueGrad: [q, k, v, dy, results.attentionLogSumExp, results.delta],
  }[op];
  return {
    title,
    operation: { op, params },
    inputs: [...inputs, ...limits],
    expected: results[op],
    tolerance,
  };
}

function maskOf(shape: Shape, hides: Setting['hides']): NdArray {
  const mask = uniform(shape, 5);
  const [queries = 0, keys = 0] = shape.slice(2);
  mask.values.forEach((_, i) => {
    if (hides?.(Math.floor(i / keys) % queries, i % keys)) mask.values[i] = -Infinity;
  });
  return mask;
}

function rangesOf({
  batch = 1,
  queries,
  ranges,
  hasCommonRanges = false,
}: Setting): NdArray | undefined {
  if (ranges === undefined) return undefined;
  const items = hasCommonRanges ? 1 : batch;
  const bounds = Array.from({ length: items }, (_, item) =>
    Array.from({ length: queries }, (__, query) => ranges(query, item)),
  );
  return i32([items, queries, 2], bounds.flat(2));
}

interface Operands {
  readonly q: NdArray;
  readonly k: NdArray;
  readonly v: NdArray;
  readonly dy: NdArray;
  readonly mask: NdArray | undefined;
  readonly ranges: Setting['ranges'];
}

/** Computes attention and its gradients by the definition, in f64. */
export function define(
  { q, k, v, dy, mask, ranges }: Operands,
  { causal, scale }: AttentionParams,
): Readonly<Record<AttentionOp | 'delta', NdArray>> {
  const [batch = 0, heads = 0, queries = 0, width = 0] = q.shape;
  const [items = 0, groups = 0, keys = 0, valueWidth = 0] = v.shape;
  const rows = [batch, heads, queries];
  const results = {
    attention: f32(dy.shape, 0),
    attentionLogSumExp: f32(rows, 0),
    attentionQueryGrad: f32(q.shape, 0),
    attentionKeyGrad: f32(k.shape, 0),
    attentionValueGrad: f32(v.shape, 0),
    delta: f32(rows, 0),
  };
  const { attention: y, attentionLogSumExp, attentionQueryGrad: dq } = results;
  const { attentionKeyGrad: dk, attentionValueGrad: dv, delta } = results;
  for (let row = 0; row < elementCount(rows); row++) {
    const [query, head] = [row % queries, Math.floor(row / queries) % heads];
    const item = Math.floor(row / queries / heads);
    const group = (items === 1 ? 0 : item) * groups + Math.floor(head / (heads / groups));
    const keyAt = (key: number): number => group * keys + key;
    const [start, end] = ranges?.(query, item) ?? [0, keys];
    const seen = Array.from({ length: keys }, (_, key) => key).filter(
      (key) => key >= start && key < end && (!causal || key <= query),
    );
    const scores = seen.map((key) => {
      const dot = dotOf(q, row, k, keyAt(key), width);
      return scale * dot + (mask === undefined ? 0 : elementAt(mask, [item, head, query, key]));
    });
    const largest = Math.max(...scores);
    const total = scores.reduce((sum, score) => sum + Math.exp(score - largest), 0);
    const logSum = largest === -Infinity ? Infinity : largest + Math.log(total);
    attentionLogSumExp.values[row] = logSum;
    const weights = scores.map((score) => Math.exp(score - logSum));
    seen.forEach((key, i) => {
      addTo(y, row, at(weights, i), v, keyAt(key), valueWidth);
      addTo(dv, keyAt(key), at(weights, i), dy, row, valueWidth);
    });
    const owed = seen.map((key) => dotOf(dy, row, v, keyAt(key), valueWidth));
    const sum = weights.reduce((all, weight, i) => all + weight * at(owed, i), 0);
    delta.values[row] = sum;
    seen.forEach((key, i) => {
      const slope = scale * at(weights, i) * (at(owed, i) - sum);
      addTo(dq, row, slope, k, keyAt(key), width);
      addTo(dk, keyAt(key), slope, q, row, width);
    });
  }
  return results;
}

function dotOf(a: NdArray, rowA: number, b: NdArray, rowB: number, width: number): number {
  let sum = 0;
  for (let i = 0; i < width; i++) {
    sum += at(a.values, rowA * width + i) * at(b.values, rowB * width + i);
  }
  return sum;
}

/** Adds a row of `source` times a factor to a row of `target`. */
function addTo(
  target: NdArray,
  row: number,
  factor: number,
  source: NdArray,
  from: number,
  width: number,
): void {
  for (let i = 0; i < width; i++) {
    const place = row * width + i;
    target.values[place] = at(target.values, place) + factor * at(source.values, from * width + i);
  }
}

/** Returns the element that broadcasting puts at this place. */
function elementAt({ shape, values }: NdArray, place: readonly number[]): number {
  const index = shape.reduce((sum, size, dim) => sum * size + (size === 1 ? 0 : at(place, dim)), 0);
  return at(values, index);
}
