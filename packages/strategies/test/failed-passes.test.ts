import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { observations, strategies } from './ranks/failed-passes.ts';

const size = 2;

describe('a backward pass that fails half-way', () => {
  let ranks: readonly z.infer<typeof observations>[] = [];

  beforeAll(async () => {
    const found = await spawnRanks(size, new URL('./ranks/failed-passes.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes: 1024 * 1024 }),
    });
    ranks = z.array(observations).length(size).parse(found);
  });

  it.each(Object.keys(strategies))('leaves nothing for the next one: %s', (name) => {
    for (const rank of ranks) {
      expect(rank[name]?.without).toHaveLength(3);
      expect(rank[name]?.after).toEqual(rank[name]?.without);
    }
  });
});
