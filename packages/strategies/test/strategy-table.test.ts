import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { spawnRanks } from '@shardwise/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { taskNames } from './ranks/models.ts';
import { results, steps, trainAlone, type Trained, variants } from './ranks/strategy-table.ts';

/** Sums in another order differ by rounding. */
const TOLERANCE = 1e-5;

const alone = new Map<string, Trained>();

beforeAll(async () => {
  setRank({ device: await cpu() });
  for (const task of taskNames) alone.set(task, await trainAlone(task));
}, 120_000);

describe.each([1, 2, 3, 4])('on %i ranks', (size) => {
  let ranks: readonly z.infer<typeof results>[] = [];

  beforeAll(async () => {
    const world = createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 });
    const found = await spawnRanks(size, new URL('./ranks/strategy-table.ts', import.meta.url), {
      world,
      timeoutMs: 240_000,
    });
    ranks = z.array(results).parse(found);
  }, 250_000);

  const possible = Object.entries(variants).filter(([, { ranks: only = size }]) => only === size);

  describe.each(possible.map(([name]) => name))('%s', (variant) => {
    it.each(taskNames)('trains %s as one rank does', (task) => {
      const each = ranks.flatMap((rank) => rank[`${variant}: ${task}`] ?? []);
      expect(each).toHaveLength(size);
      const expected = alone.get(task)?.losses ?? [];
      expect(expected).toHaveLength(steps);
      expected.forEach((loss, step) => {
        const mean = each.reduce((sum, { losses }) => sum + (losses[step] ?? NaN), 0) / size;
        expect(Math.abs(mean - loss) / loss, `step ${step}`).toBeLessThan(TOLERANCE);
      });
      expect(new Set(each.map(({ hash }) => hash)).size).toBe(1);
    });
  });
});
