import { dist } from 'shardwise';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { autocastGolden, largestDifference } from './golden/autocast-curve.ts';
import { results, strategies } from './golden/autocast-rank.ts';

describe('a GPT on three ranks, with products in bf16', () => {
  let ranks: readonly z.infer<typeof results>[] = [];

  beforeAll(async () => {
    const world = dist.transports.createThreadsWorld({ size: 3, arenaBytes: 32 * 1024 * 1024 });
    const file = new URL('./golden/autocast-rank.ts', import.meta.url);
    ranks = z.array(results).parse(await spawnRanks(3, file, { world, timeoutMs: 600_000 }));
  }, 620_000);

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
