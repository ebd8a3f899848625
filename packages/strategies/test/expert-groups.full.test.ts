import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { experts, found, grids } from './ranks/expert-groups.ts';

/** Each rank contributes 2^rank, so a sum shows which ranks took part, and how often. */
describe('gradients of experts on four ranks', () => {
  let ranks: readonly z.infer<typeof found>[] = [];

  beforeAll(async () => {
    const results = await spawnRanks(4, new URL('./ranks/expert-groups.ts', import.meta.url), {
      world: createThreadsWorld({ size: 4, arenaBytes: 16 * 1024 * 1024 }),
    });
    ranks = z.array(found).length(4).parse(results);
  });

  it.each(Object.entries(grids))('have what every rank gave, once: %s', (name, { shares }) => {
    const everyRank = 1 + 2 + 4 + 8;
    const each = ranks.flatMap((rank) => rank[name] ?? []);
    expect(each).toHaveLength(4);
    for (const own of each) {
      // Each expert has a token of each rank. The mean is taken over the shares of the batch, not over the ranks that
      // have the expert.
      expect(new Set(own.experts)).toEqual(new Set([everyRank / shares.length]));
      const tokensOfRank = experts;
      expect(new Set(own.shared)).toEqual(
        new Set([(everyRank * tokensOfRank * experts) / shares.length]),
      );
    }
  });
});
