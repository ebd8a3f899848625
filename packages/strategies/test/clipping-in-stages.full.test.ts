import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { spawnRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { norms, normsAlone } from './ranks/clipping-in-stages.ts';
import { testMs, trainingMs } from './time-limits.ts';

it(
  'the norm of gradients in three dimensions is that of one rank, also if parameters of one stage are cut in more ways than those of another',
  { timeout: testMs },
  async () => {
    setRank({ device: await cpu() });
    const alone = await normsAlone();
    const world = createThreadsWorld({ size: 8, arenaBytes: 16 * 1024 * 1024 });
    const url = new URL('./ranks/clipping-in-stages.ts', import.meta.url);
    const found = await spawnRanks(8, url, { world, timeoutMs: trainingMs });
    for (const rank of z.array(norms).length(8).parse(found)) {
      expect(rank.sum).toBeCloseTo(alone.sum, 4);
      expect(rank.cubes).toBeCloseTo(alone.cubes, 4);
      expect(rank.largest).toBeCloseTo(alone.largest, 4);
      expect(rank.ahead).toBeCloseTo(alone.ahead, 4);
    }
  },
);
