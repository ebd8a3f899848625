import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { describeDifference } from '@shardwise/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import {
  alone,
  freezeStep,
  outcome,
  wholeKey,
  wholeNames,
  wholeStrategies,
} from './ranks/large-batch-optimizers.ts';
import { testMs, trainingMs } from './time-limits.ts';

const expected = { whole: new Map<string, number[]>(), adam: new Array<number>() };

beforeAll(async () => {
  setRank({ device: await cpu() });
  for (const name of wholeNames) expected.whole.set(name, await alone(name));
  expected.adam = await alone('adam');
}, 300_000);

describe.each([
  { size: 2, tp: 1 },
  { size: 3, tp: 1 },
  { size: 4, tp: 2 },
])('on $size ranks, of which $tp compute layers together', ({ size, tp }) => {
  let ranks: readonly z.infer<typeof outcome>[] = [];

  beforeAll(async () => {
    const world = createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 });
    const url = new URL('./ranks/large-batch-optimizers.ts', import.meta.url);
    ranks = z
      .array(outcome)
      .parse(await runRanks(size, url, { world, data: { tp }, timeoutMs: trainingMs }));
  }, testMs);

  const meanLosses = (of: (rank: z.infer<typeof outcome>) => readonly number[]): number[] => {
    const lists = ranks.map(of);
    return (lists[0] ?? []).map(
      (_, step) => lists.reduce((sum, losses) => sum + (losses[step] ?? NaN), 0) / size,
    );
  };

  describe.each(wholeNames)('%s', (optimizer) => {
    it.each(Object.keys(wholeStrategies))('updates whole parameters under %s', (strategy) => {
      const key = wholeKey(optimizer, strategy);
      const found = meanLosses(({ whole }) => whole[key]?.losses ?? []);
      const wanted = expected.whole.get(optimizer) ?? [];
      expect(describeDifference(found, wanted, { rtol: 1e-4 })).toBeUndefined();
      expect(new Set(ranks.map(({ whole }) => whole[key]?.hash)).size).toBe(1);
    });
  });

  if (tp > 1) return;

  it('OneBitAdam is Adam before its freeze step', () => {
    const found = meanLosses(({ oneBit }) => oneBit.losses).slice(0, freezeStep);
    const wanted = expected.adam.slice(0, freezeStep);
    expect(describeDifference(found, wanted, { rtol: 1e-4 })).toBeUndefined();
  });

  it('OneBitAdam goes on learning after it, with the same bits on every rank', () => {
    const found = meanLosses(({ oneBit }) => oneBit.losses);
    // Batches repeat every four steps, so the worst of four losses is compared.
    const worst = (losses: readonly number[]): number => Math.max(...losses);
    const atEnd = worst(found.slice(-4));
    expect(atEnd).toBeLessThan(0.9 * worst(found.slice(freezeStep - 4, freezeStep)));
    expect(atEnd).toBeLessThan(1.02 * worst(expected.adam.slice(-4)));
    expect(new Set(ranks.map(({ oneBit }) => oneBit.hash)).size).toBe(1);
  });

  it('OneBitAdam then sends about a 32nd of the bytes', () => {
    for (const { oneBit } of ranks) {
      const [warm = NaN, cold = NaN] = [oneBit.bytes[freezeStep - 2], oneBit.bytes.at(-1)];
      // An all-reduce of n bytes sends n bytes to compute the means, and n bytes to return them.
      expect((cold / (2 * warm)) * 32).toBeGreaterThan(0.9);
      expect((cold / (2 * warm)) * 32).toBeLessThan(1.4);
    }
  });
});
