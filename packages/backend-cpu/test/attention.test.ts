import { autocast, fromData, nn, setRank, type Tensor } from '@shardwise/core';
import { describeDifference } from '@shardwise/testing';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cpu, type CpuOptions } from '../src/cpu.ts';

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
}

function numbers(shape: readonly number[], seed: number): Tensor {
  const length = shape.reduce((count, size) => count * size, 1);
  const data = Float32Array.from({ length }, (_, i) => Math.sin(seed * 7.3 + i * 1.7 + (i % 13)));
  return fromData(data, shape, 'f32');
}

type Results = readonly Float32Array[];

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
  const mask = shapes.mask ? numbers([batch, 1, 1, keys], 4) : undefined;
  const forward = (): Tensor =>
    scaledDotProductAttention(q, k, v, { causal, ...(mask && { mask }) });
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
/** Options of a device that computes attention from products and a softmax over all scores. */
const dense = { loops: 'webassembly' } as const;
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
});
