import { arange, autocast, fromData, nn, setRank, type Tensor } from '@shardwise/core';
import { describeDifference } from '@shardwise/testing';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cpu, type CpuOptions } from '../src/cpu.ts';
import { keyLimits, keySpans } from '../src/engines/attention/key-spans.ts';
import type { BlockSizes } from '../src/engines/attention/row-blocks.ts';

const { scaledDotProductAttention } = nn.functional;

interface Shapes {
  readonly batch: number;
  readonly groups: number;
  readonly perGroup: number;
  readonly queries: number;
  readonly keys: number;
  readonly width: number;
  readonly valueWidth: number;
  readonly causal: boolean;
  readonly mask: boolean;
  /** The lengths of documents, of which a query sees only its own one. Each item of the batch has them in another order. */
  readonly documents?: readonly number[];
}

function numbers(shape: readonly number[], seed: number): Tensor {
  const length = shape.reduce((count, size) => count * size, 1);
  const data = Float32Array.from({ length }, (_, i) => Math.sin(seed * 7.3 + i * 1.7 + (i % 13)));
  return fromData(data, shape, 'f32');
}

/** Shape: -> i32 [B, T, 2]. */
function rangesOf(documents: readonly number[], batch: number): Tensor {
  const length = documents.reduce((sum, tokens) => sum + tokens, 0);
  const bounds = Array.from({ length: batch }, (_, item) => {
    let start = 0;
    return [...documents.slice(item), ...documents.slice(0, item)].flatMap((tokens) => {
      const [first, end] = [start, (start += tokens)];
      return Array.from({ length: tokens }, () => [first, end]).flat();
    });
  });
  return fromData(Int32Array.from(bounds.flat()), [batch, length, 2], 'i32');
}

/** The mask that hides what the ranges hide. Shape: ranges [B, T, 2] -> bool [B, 1, T, S]. */
function maskOf(ranges: Tensor, keys: number): Tensor {
  const [first, end] = ranges.unsqueeze(1).unbind(3);
  const places = arange(keys);
  const bound = (x: Tensor | undefined): Tensor => (x ?? places).unsqueeze(3);
  return places.ge(bound(first)).logicalAnd(places.lt(bound(end)));
}

type Results = readonly Float32Array[];

/** Options of a device that computes attention from products and a softmax over all scores. */
const dense = { loops: 'webassembly' } as const;

/** Computes attention and its gradients with respect to queries, keys and values on a device with these options. */
async function attend(options: CpuOptions, shapes: Shapes, half = false): Promise<Results> {
  setRank({ device: await cpu(options) });
  const { batch, groups, perGroup, queries, keys, width, valueWidth, causal } = shapes;
  const heads = groups * perGroup;
  const leaves = [
    numbers([batch, heads, queries, width], 1),
    numbers([batch, groups, keys, width], 2),
    numbers([batch, groups, keys, valueWidth], 3),
  ].map((x) => x.requiresGrad_());
  const [q, k, v] = leaves;
  if (q === undefined || k === undefined || v === undefined) throw new RangeError('three inputs');
  const added = shapes.mask ? numbers([batch, 1, 1, keys], 4) : undefined;
  const keyRanges = shapes.documents && rangesOf(shapes.documents, batch);
  // All scores are computed with one mask, without ranges.
  const hidden = keyRanges && maskOf(keyRanges, keys).where(added ?? 0, -Infinity);
  const mask = options === dense ? (hidden ?? added) : added;
  const limits = { causal, ...(mask && { mask }) };
  const forward = (): Tensor =>
    scaledDotProductAttention(
      q,
      k,
      v,
      options === dense || !keyRanges ? limits : { ...limits, keyRanges },
    );
  const y = half ? autocast({}, forward) : forward();
  y.to('f32').mul(numbers(y.shape, 5)).sum().backward();
  const results = [y.to('f32'), ...leaves.map(({ grad }) => grad ?? y)];
  return Promise.all(results.map(async (x) => Float32Array.from(await x.data(), Number)));
}

function expectClose(actual: Results, expected: Results, bound: number): void {
  actual.forEach((values, index) => {
    const wanted = expected[index] ?? new Float32Array();
    const largest = wanted.reduce((most, x) => Math.max(most, Math.abs(x)), 1);
    const tolerance = { rtol: 0, atol: bound * largest };
    expect(describeDifference([...values], [...wanted], tolerance)).toBeUndefined();
  });
}

const usual: Shapes = {
  batch: 2,
  groups: 2,
  perGroup: 2,
  queries: 300,
  keys: 290,
  width: 32,
  valueWidth: 16,
  causal: true,
  mask: false,
};
const device = await cpu();
const isNative = device.limits.native.has('attention');

describe.skipIf(!isNative)('attention block by block', () => {
  it('has the values and gradients of attention with all scores, for any sizes, groups and masks', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          batch: fc.integer({ min: 1, max: 2 }),
          groups: fc.integer({ min: 1, max: 2 }),
          perGroup: fc.integer({ min: 1, max: 3 }),
          queries: fc.integer({ min: 1, max: 320 }),
          keys: fc.integer({ min: 1, max: 320 }),
          width: fc.integer({ min: 1, max: 40 }),
          valueWidth: fc.integer({ min: 1, max: 40 }),
          causal: fc.boolean(),
          mask: fc.boolean(),
        }),
        async (shapes) => expectClose(await attend({}, shapes), await attend(dense, shapes), 1e-5),
      ),
      { numRuns: 15, seed: 5 },
    );
  });

  it.each([false, true])(
    'has the values and gradients of masked scores for any documents that are packed, under autocast: %s',
    async (half) => {
      await fc.assert(
        fc.asyncProperty(
          fc.record({
            batch: fc.integer({ min: 1, max: 2 }),
            groups: fc.integer({ min: 1, max: 2 }),
            perGroup: fc.integer({ min: 1, max: 2 }),
            documents: fc.array(fc.integer({ min: 1, max: 150 }), { minLength: 2, maxLength: 6 }),
            width: fc.integer({ min: 1, max: 24 }),
            valueWidth: fc.integer({ min: 1, max: 24 }),
            causal: fc.boolean(),
            mask: fc.boolean(),
          }),
          async (found) => {
            const length = found.documents.reduce((sum, tokens) => sum + tokens, 0);
            const shapes = { ...found, queries: length, keys: length };
            const wanted = await attend(dense, shapes, half);
            expectClose(await attend({}, shapes, half), wanted, half ? 2e-2 : 1e-5);
          },
        ),
        { numRuns: 8, seed: 11 },
      );
    },
  );

  it.each([false, true])(
    'has the same bits for documents by AVX2, and on two threads, under autocast: %s',
    async (half) => {
      const shapes = { ...usual, queries: 300, keys: 300, documents: [37, 200, 63] };
      const wanted = await attend({ instructions: 'AVX512-BF16' }, shapes, half);
      expect(await attend({ instructions: 'AVX2' }, shapes, half)).toEqual(wanted);
      expect(await attend({ threads: 2 }, shapes, half)).toEqual(
        await attend({ threads: 1 }, shapes, half),
      );
    },
  );

  it.each([
    [true, false],
    [false, true],
  ])(
    'is right for more keys than a core keeps of all heads, causal: %s, under autocast: %s',
    async (causal, half) => {
      // Blocks of queries that see all keys, one more key each, and other ranges of keys.
      const long = { ...usual, batch: 1, width: 32, valueWidth: 32, queries: 1100, keys: 1100 };
      const bound = half ? 2e-2 : 1e-4;
      const shapes = { ...long, causal, documents: [900, 200] };
      expectClose(await attend({}, shapes, half), await attend(dense, shapes, half), bound);
    },
  );

  it('never reads what lies far outside of a document', async () => {
    const [length, each] = [1024, 256];
    const causal = { causal: true, keyRanges: rangesOf([each, each, each, each], 1) };
    setRank({ device });
    const x = numbers([1, 2, length, 8], 1);
    // Even a weight of 0 would make NaN of an infinity.
    const places = arange(length).reshape([1, 1, length, 1]);
    const spoilt = places.lt(each).where(Infinity, x);
    const rows = await scaledDotProductAttention(x, spoilt, spoilt, causal)
      .slice(2, 2 * each, length)
      .data();
    const clean = await scaledDotProductAttention(x, x, x, causal)
      .slice(2, 2 * each, length)
      .data();
    expect(rows).toEqual(clean);
  });

  it.each([
    ['several heads for each of keys', usual],
    ['one head for each', { ...usual, perGroup: 1 }],
    ['one block of queries', { ...usual, perGroup: 1, queries: 100 }],
    ['fewer queries than keys', { ...usual, queries: 150, keys: 400 }],
    ['a mask', { ...usual, causal: false, mask: true }],
  ])('is that of 16 bits under autocast, with %s', async (_, shapes) => {
    expectClose(await attend({}, shapes, true), await attend(dense, shapes, true), 2e-2);
    // The result is close to attention in f32, although the weights have only 8 significant bits.
    expectClose(await attend({}, shapes, true), await attend({}, shapes), 4e-2);
  });

  it.each([false, true])(
    'has the same bits by AVX2 as by AVX-512, under autocast: %s',
    async (half) => {
      const narrow = await attend({ instructions: 'AVX2' }, usual, half);
      expect(narrow).toEqual(await attend({ instructions: 'AVX512-BF16' }, usual, half));
    },
  );

  it.each([false, true])(
    'has the same gradients behind any number of steps, which part it from its logarithms; masked: %s',
    async (masked) => {
      const shape = [1, 2, 4, 3];
      const options = masked ? { mask: numbers([1, 1, 4, 4], 7) } : { causal: true };
      const gradient = async (backend: CpuOptions, steps: number): Promise<readonly number[]> => {
        setRank({ device: await cpu(backend) });
        const q = numbers(shape, 1).requiresGrad_();
        // A product, and what waits for it: attention overtakes these steps, up to the most that it may.
        let x = numbers([8, 8], 2).matmul(numbers([8, 8], 3));
        for (let step = 0; step < steps; step++) x = x.tanh();
        const [k, v] = [numbers(shape, 4), numbers(shape, 5)];
        const y = scaledDotProductAttention(q, k, v, options);
        y.mul(numbers(shape, 6)).sum().add(x.sum()).backward();
        return Array.from((await q.grad?.data()) ?? [], Number);
      };
      const wanted = await gradient(dense, 0);
      expect(wanted).not.toHaveLength(0);
      for (let steps = 60; steps < 70; steps++) {
        const difference = describeDifference(await gradient({}, steps), wanted, { atol: 1e-5 });
        expect(difference, `${steps} steps`).toBeUndefined();
      }
    },
  );

  it('reads values that depend on gradients of an attention of the same queries and keys', async () => {
    const shape = [1, 2, 4, 3];
    const attendTwice = async (backend: CpuOptions): Promise<readonly number[]> => {
      setRank({ device: await cpu(backend) });
      const [q, k] = [numbers(shape, 1), numbers(shape, 2)];
      const v = numbers(shape, 3).requiresGrad_();
      const y = scaledDotProductAttention(q, k, v, { causal: true });
      y.mul(numbers(shape, 4)).sum().backward();
      const next = v.detach().sub(v.grad ?? v);
      return Array.from(
        await scaledDotProductAttention(q, k, next, { causal: true }).data(),
        Number,
      );
    };
    const difference = describeDifference(await attendTwice({}), await attendTwice(dense), {
      atol: 1e-5,
    });
    expect(difference).toBeUndefined();
  });

  it('has the same bits whatever the number of threads is', async () => {
    const shapes = { ...usual, batch: 4, queries: 512, keys: 512 };
    expect(await attend({ threads: 2 }, shapes)).toEqual(await attend({ threads: 1 }, shapes));
  });

  it('takes memory for queries and keys, and none for their scores', async () => {
    const peakOf = async (length: number): Promise<number> => {
      const backend = await cpu();
      setRank({ device: backend });
      const x = numbers([1, 2, length, 16], 1).requiresGrad_();
      scaledDotProductAttention(x, x, x, { causal: true }).sum().backward();
      await x.grad?.data();
      return backend.usage().peakBytes;
    };
    const [short, long] = [await peakOf(1024), await peakOf(2048)];
    expect(long / short).toBeLessThan(2.1);
    // The scores of a single head would take twice this limit.
    expect(long).toBeLessThan((4 * 2048 * 2048) / 2);
  });

  it('takes no memory for a mask of documents, windows or padded rows', async () => {
    const length = 2048;
    const peakOf = async (options: nn.functional.AttentionOptions): Promise<number> => {
      const backend = await cpu();
      setRank({ device: backend });
      const x = numbers([1, 2, length, 16], 1).requiresGrad_();
      scaledDotProductAttention(x, x, x, options).sum().backward();
      await x.grad?.data();
      return backend.usage().peakBytes;
    };
    const plain = await peakOf({ causal: true });
    const small = 16 * length;
    const packed = { causal: true, keyRanges: rangesOf([1000, 1048], 1) };
    expect(await peakOf(packed)).toBeLessThan(plain + small);
    const padded = { causal: true, mask: arange(length).ge(100) };
    expect(await peakOf(padded)).toBeLessThan(plain + small);
  });
});

describe('the keys that blocks of queries are multiplied with', () => {
  const sizesOf = (length: number, causal: boolean, isNarrow: boolean): BlockSizes => ({
    queries: length,
    keys: length,
    params: { causal, hasKeyRanges: true, scale: 1, rounding: 'none' },
    isNarrow,
    keyRanges: { value: 0, itemStride: 0 },
  });

  it.each([
    ['f32', false],
    ['bf16', true],
  ])('are those of their documents, in %s: the cost is the sum of squared lengths', (_, narrow) => {
    const costOf = (documents: readonly number[], causal: boolean): number => {
      const length = documents.reduce((sum, tokens) => sum + tokens, 0);
      const ranges = documents.flatMap((tokens, number) => {
        const start = documents.slice(0, number).reduce((sum, before) => sum + before, 0);
        return Array.from({ length: tokens }, () => [start, start + tokens]).flat();
      });
      const sizes = sizesOf(length, causal, narrow);
      const spans = keySpans(sizes, keyLimits(sizes, Int32Array.from(ranges)));
      return spans.reduce((sum, { block, keys }) => sum + block.rows * keys, 0);
    };
    const eight = Array.from({ length: 8 }, () => 256);
    // The squares are an eighth of all scores. Causal attention needs a little more than half of them.
    expect(costOf(eight, false) / (8 * 256 ** 2)).toBeLessThan(1.35);
    expect(costOf(eight, true) / (8 * 256 ** 2)).toBeLessThan(0.85);
    const mixed = [700, 10, 300, 38, 500, 500];
    const squares = mixed.reduce((sum, tokens) => sum + tokens ** 2, 0);
    expect(costOf(mixed, false) / squares).toBeLessThan(1.35);
  });

  it('are those of a window, so that the cost grows with the length of a row alone', () => {
    const costOf = (length: number): number => {
      const ranges = Array.from({ length }, (_, query) => [query - 255, query + 1]).flat();
      const sizes = sizesOf(length, true, false);
      const spans = keySpans(sizes, keyLimits(sizes, Int32Array.from(ranges)));
      return spans.reduce((sum, { block, keys }) => sum + block.rows * keys, 0);
    };
    expect(costOf(8192) / costOf(4096)).toBeLessThan(2.1);
    expect(costOf(8192)).toBeLessThan(8192 * 256 * 1.5);
  });

  it('need no ranges where all queries of a block see all of them, or each sees one more than the query before it', () => {
    const spansOf = (seen: (query: number) => readonly [number, number]) => {
      const sizes = sizesOf(2048, false, false);
      const ranges = Array.from({ length: 2048 }, (_, query) => seen(query)).flat();
      return keySpans(sizes, keyLimits(sizes, Int32Array.from(ranges)));
    };
    const kindsOf = (spans: ReturnType<typeof spansOf>) => new Set(spans.map(({ sees }) => sees));
    expect(kindsOf(spansOf(() => [0, 2048]))).toEqual(new Set(['all']));
    expect(kindsOf(spansOf((query) => [0, query + 1]))).toEqual(new Set(['oneMoreEach']));
    expect(kindsOf(spansOf((query) => [query, query + 1]))).toEqual(new Set(['ranges']));
    expect(kindsOf(spansOf(() => [5, 5]))).toEqual(new Set(['ranges']));
    // The ring, of which the front and the back of a sequence of 4096 tokens is here: at most one block has both.
    const received = spansOf((query) => [0, query < 1024 ? 0 : 2048]);
    expect(received.filter(({ sees, keys }) => sees === 'ranges' && keys > 16)).toHaveLength(1);
  });

  it('have few different numbers, so that blocks share plans', () => {
    const sizes = { ...sizesOf(32_768, false, false), queries: 1 };
    const numbersOfKeys = new Set<number>();
    for (let end = 1; end <= 32_768; end += 7) {
      const limits = keyLimits(sizes, Int32Array.of(0, end));
      const [first] = keySpans(sizes, limits);
      numbersOfKeys.add(first?.keys ?? 0);
    }
    expect(numbersOfKeys.size).toBeLessThan(90);
  });
});
