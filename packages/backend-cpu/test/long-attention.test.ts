import { arange, fromData, nn, noGrad, setRank, type Tensor } from '@shardwise/core';
import { describeDifference } from '@shardwise/testing';
import { describe, expect, it } from 'vitest';
import { cpu, type CpuOptions } from '../src/cpu.ts';
import { keyLimits } from '../src/engines/attention/key-spans.ts';
import { MOST_KEYS, partSpans, STRETCH_KEYS } from '../src/engines/attention/part-spans.ts';

const { scaledDotProductAttention } = nn.functional;

/** What each query sees: keys from the first number on, up to, but not including, the second one. */
type Seen = (query: number) => readonly [first: number, end: number];

const [heads, groups, queries, keys, width] = [4, 2, 200, 5300, 8];

/** What queries see, of more keys than are computed at once. */
const cases: Readonly<Record<string, Seen>> = {
  'all keys': () => [0, keys],
  'one key more each': (query) => [0, 4900 + query],
  'one key more each, from some key on': (query) => [700, 4900 + query],
  'keys from another one on each': (query) => [query * 3, keys - query],
  'some many keys, some few, some none': (query) =>
    query % 3 === 0 ? [0, keys] : query % 3 === 1 ? [4090, 4100] : [9, 9],
  'none, in the first block': (query) => (query < 100 ? [0, 0] : [0, keys]),
};

function numbers(shape: readonly number[], seed: number): Tensor {
  const length = shape.reduce((count, size) => count * size, 1);
  const data = Float32Array.from({ length }, (_, i) => Math.sin(seed * 7.3 + i * 1.7 + (i % 13)));
  return fromData(data, shape, 'f32');
}

const boundsOf = (seen: Seen): Int32Array<ArrayBuffer> =>
  Int32Array.from(Array.from({ length: queries }, (_, query) => seen(query)).flat());

/** Attention, and its gradients by queries, keys and values. A device without machine code computes all scores with a mask. */
async function attend(seen: Seen, options: CpuOptions, trains = true): Promise<Float32Array[]> {
  setRank({ device: await cpu(options) });
  const keyRanges = fromData(boundsOf(seen), [1, queries, 2], 'i32');
  const [first, end] = keyRanges.unsqueeze(1).unbind(3);
  if (first === undefined || end === undefined) throw new RangeError('two bounds');
  const places = arange(keys);
  const isSeen = places.ge(first.unsqueeze(3)).logicalAnd(places.lt(end.unsqueeze(3)));
  const limits =
    options.loops === 'webassembly' ? { mask: isSeen.where(0, -Infinity) } : { keyRanges };
  const leaves = [
    numbers([1, heads, queries, width], 1),
    numbers([1, groups, keys, width], 2),
    numbers([1, groups, keys, width], 3),
  ].map((x) => x.requiresGrad_());
  const [q, k, v] = leaves;
  if (q === undefined || k === undefined || v === undefined) throw new RangeError('three inputs');
  const forward = (): Tensor => scaledDotProductAttention(q, k, v, limits);
  const y = trains ? forward() : noGrad(forward);
  if (trains) y.mul(numbers(y.shape, 5)).sum().backward();
  const results = trains ? [y, ...leaves.map(({ grad }) => grad ?? y)] : [y];
  return Promise.all(results.map(async (x) => Float32Array.from(await x.data(), Number)));
}

const isNative = (await cpu()).limits.native.has('attention');

describe.skipIf(!isNative)('attention to more keys than are computed at once', () => {
  it.each(Object.keys(cases))('has the values and gradients of masked scores: %s', async (name) => {
    const seen = cases[name] ?? expect.fail(name);
    const [found, wanted] = [await attend(seen, {}), await attend(seen, { loops: 'webassembly' })];
    expect(found).toHaveLength(4);
    for (const [index, values] of found.entries()) {
      const difference = describeDifference([...values], [...(wanted[index] ?? [])], {
        rtol: 1e-5,
        atol: 1e-5,
      });
      expect(difference, `result ${index}`).toBeUndefined();
    }
    // Without a backward pass, no logarithms of sums are results.
    const [alone] = await attend(seen, {}, false);
    expect(alone).toEqual(found[0]);
  });
});

describe('the keys of a long sequence', () => {
  const sizes = {
    kind: 'forward',
    queries,
    keys,
    params: { causal: false, hasKeyRanges: true, scale: 1, rounding: 'none' },
    isNarrow: false,
    keyRanges: { value: 0, itemStride: 0 },
  } as const;

  it.each(Object.keys(cases))('are all computed once, in stretches: %s', (name) => {
    const seen = cases[name] ?? expect.fail(name);
    const counts = new Uint8Array(queries * keys);
    const spans = partSpans(sizes, keyLimits(sizes, boundsOf(seen)));
    for (const { block, start, keys: count, isFirst, isLast } of spans) {
      expect(count).toBeLessThanOrEqual(isFirst && isLast ? MOST_KEYS : STRETCH_KEYS);
      for (let query = block.start; query < block.start + block.rows; query++) {
        for (let key = start; key < start + count; key++) {
          const at = query * keys + key;
          counts[at] = (counts[at] ?? 0) + 1;
        }
      }
    }
    for (let query = 0; query < queries; query++) {
      const [first, end] = seen(query);
      const own = counts.subarray(query * keys, (query + 1) * keys);
      expect(own.every((count) => count <= 1)).toBe(true);
      expect(own.subarray(first, Math.max(first, end)).every((count) => count === 1)).toBe(true);
    }
  });
});
