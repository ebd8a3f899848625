import { onRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { autocastGolden, largestDifference } from './golden/autocast-curve.ts';
import { strategies, trainByEach } from './golden/train-in-autocast.ts';
import { onCpu } from './support/on-cpu.ts';

describe('a GPT on three ranks, with products in bf16', () => {
  let ranks: readonly Readonly<Record<string, readonly number[]>>[] = [];

  beforeAll(async () => {
    ranks = await onRanks(3, trainByEach, onCpu);
  });

  it.each(Object.keys(strategies))(
    'has the losses of PyTorch’s autocast under %s, but for the noise of 16 bits',
    async (strategy) => {
      const { curves, noise } = await autocastGolden('gpt', 'adamw');
      const own = ranks.flatMap((rank) => [rank[strategy] ?? []]);
      const mean = curves.f32.map(
        (_, step) => own.reduce((sum, losses) => sum + (losses[step] ?? Number.NaN), 0) / 3,
      );
      expect(mean).not.toEqual(curves.f32);
      expect(largestDifference(mean, curves.f32)).toBeLessThan(1.5 * noise.bf16);
      expect(largestDifference(mean, curves.bf16)).toBeLessThan(2 * noise.bf16);
    },
  );
});
