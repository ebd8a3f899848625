import { beforeAll, describe, expect, test } from 'vitest';
import { keepProducts } from '../src/nn/checkpoint.ts';
import { hostPages } from '../src/paging/page.ts';
import { ConfigError } from '../src/spec/errors.ts';
import { depth, eachBlock, plainly, rows, train, trainWithin, width } from './budgeted-training.ts';

describe('an activation memory budget', () => {
  let plain: Awaited<ReturnType<typeof train>>;
  beforeAll(async () => {
    plain = await train(plainly);
  });

  test.each([0.9, 0.5])(
    'of %d times the bytes of a pass is kept within, with the same bits',
    async (share) => {
      const bytes = Math.round(share * plain.passBytes);
      const { values, passBytes, choices } = await trainWithin(bytes);
      expect(values).toEqual(plain.values);
      expect(passBytes).toBeLessThan(1.05 * bytes);
      expect(passBytes).toBeGreaterThan(0.95 * bytes);
      // The plan says what the device will allocate. Besides, there are the inputs of the pass, and the loss.
      expect(Math.abs(passBytes - (choices[0]?.plannedBytes ?? 0))).toBeLessThan(0.02 * bytes);
      // Later steps have the structure of the first one.
      expect(choices).toHaveLength(1);
    },
  );

  test('that is large enough recomputes nothing, and the pass is as if there were no checkpoint', async () => {
    const { passBytes, choices } = await trainWithin(2 * plain.passBytes);
    expect(choices).toMatchObject([{ recomputed: [], recomputedFlops: 0 }]);
    expect(passBytes).toBe(plain.passBytes);
  });

  test('computes no more products again than the way of recomputing blocks that fits', async () => {
    const productsKept = await train(eachBlock(keepProducts));
    const selective = await trainWithin(productsKept.passBytes);
    expect(selective.choices[0]?.recomputedFlops).toBe(0);
    const full = await train(eachBlock(() => 'recompute'));
    const within = await trainWithin(full.passBytes);
    const flopsOfForward = depth * 2 * (2 * rows * width * 4 * width);
    expect(within.passBytes).toBeLessThanOrEqual(1.05 * full.passBytes);
    expect(within.choices[0]?.recomputedFlops).toBeLessThanOrEqual(flopsOfForward);
  });

  test('may be shared by several checkpoints', async () => {
    const bytes = Math.round(0.7 * plain.passBytes);
    const { values, passBytes, choices } = await trainWithin(bytes, { isPerBlock: true });
    expect(values).toEqual(plain.values);
    expect(passBytes).toBeLessThan(1.05 * bytes);
    expect(choices).toHaveLength(1);
  });

  test('that nothing meets is an error that says the least', async () => {
    const error = await trainWithin(1e4).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ConfigError);
    const least = error instanceof ConfigError ? Number(error.fields['leastBytes']) : 0;
    expect(least).toBeLessThan(0.5 * plain.passBytes);
    const { passBytes } = await trainWithin(least);
    expect(passBytes).toBeLessThanOrEqual(1.05 * least);
  });

  test('moves nothing to its pages if recomputing is sooner', async () => {
    const bytes = Math.round(0.8 * plain.passBytes);
    const { choices } = await trainWithin(bytes, {
      pages: hostPages(),
      flopsPerSecond: 1e15,
      pageBytesPerSecond: 1e6,
    });
    expect(choices[0]?.recomputed.length).toBeGreaterThan(0);
    expect(choices[0]?.offloaded).toEqual([]);
  });
});
