import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { timeTiles } from '../src/tune/time-tiles.ts';

/** A product on a device that takes `ms` for a run. Compiling its kernel takes `compileMs`. */
function productOf(ms: number, compileMs = 30) {
  const product = {
    runs: [] as number[],
    compile: async (): Promise<void> => void vi.advanceTimersByTime(compileMs),
    timeOf: async (runs: number): Promise<number> => {
      product.runs.push(runs);
      vi.advanceTimersByTime(runs * ms);
      return runs * ms;
    },
  };
  return product;
}

const pairOf = (manyMs: number, fewMs: number, compileMs?: number) => ({
  many: productOf(manyMs, compileMs),
  few: productOf(fewMs, compileMs),
});

describe('the trial of tiles', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
  afterEach(() => void vi.useRealTimers());

  it('measures each product four times, in turns, and gives its least time', async () => {
    const pairs = [pairOf(10, 5), pairOf(12, 6), pairOf(9, 4)];
    const times = await timeTiles(pairs);
    expect(times.map(({ manyMs, fewMs }) => [manyMs, fewMs])).toEqual([
      [10, 5],
      [12, 6],
      [9, 4],
    ]);
    expect(times.map(({ pair }) => pair)).toEqual(pairs);
    const [first, ...others] = pairs;
    for (const { runs } of others.flatMap(({ many, few }) => [many, few]))
      expect(runs).toEqual([1, 1, 1, 1]);
    // The first product has the device compute for a quarter of a second before.
    expect(first?.few.runs).toEqual([1, 1, 1, 1]);
    expect(first?.many.runs).toEqual(Array.from({ length: 4 + 25 }, () => 1));
    const uneven = pairOf(10, 10);
    const durations = [13, 11, 12, 14];
    uneven.few.timeOf = async () => durations.shift() ?? 0;
    expect((await timeTiles([uneven]))[0]?.fewMs).toBe(11);
  });

  it('runs a product several times together on a fast device, whose products are shorter than waiting for them', async () => {
    const pair = pairOf(0.5, 0.02);
    const [times] = await timeTiles([pair]);
    expect(pair.many.runs.slice(0, 4)).toEqual([1, 4, 16, 16]);
    expect(new Set(pair.many.runs.slice(2))).toEqual(new Set([16]));
    expect(pair.few.runs).toEqual([1, 4, 16, 64, 64, 64, 64]);
    expect(times?.manyMs).toBeCloseTo(0.5);
    expect(times?.fewMs).toBeCloseTo(0.02);
  });

  it('ends after two tiles where that has taken long, in products or in compilation', async () => {
    const slow = [500, 400, 300].map((ms) => pairOf(ms, ms));
    expect(await timeTiles(slow)).toHaveLength(2);
    expect(slow.map(({ few }) => few.runs)).toEqual([[1, 1], [1, 1], []]);
    const compiling = [3000, 3000, 3000].map((compileMs) => pairOf(10, 10, compileMs));
    expect(await timeTiles(compiling)).toHaveLength(2);
    expect(compiling[2]?.many.runs).toEqual([]);
  });
});
