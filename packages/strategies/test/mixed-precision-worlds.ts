import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { variants } from './ranks/mixed-precision.ts';
import { taskNames } from './ranks/models.ts';
import { results, trainAlone, type Trained } from './ranks/strategy-table.ts';
import { testMs, trainingMs } from './time-limits.ts';

/** A bf16 has 8 significant bits. Rounding to it makes a relative error of up to 2^-9. */
const TOLERANCE = 2e-2;

const alone = new Map<string, Trained>();

/** Adds the tests of worlds of these sizes, which train this many steps. */
export function testMixedPrecision(sizes: readonly number[], steps: number): void {
  beforeAll(async () => {
    setRank({ device: await cpu() });
    for (const task of taskNames) alone.set(task, await trainAlone(task, steps));
  }, testMs);

  describe.each(sizes)('on %i ranks', (size) => {
    let ranks: readonly z.infer<typeof results>[] = [];

    beforeAll(async () => {
      const world = createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 });
      const found = await spawnRanks(size, new URL('./ranks/mixed-precision.ts', import.meta.url), {
        world,
        data: steps,
        timeoutMs: trainingMs,
      });
      ranks = z.array(results).parse(found);
    }, testMs);

    describe.each(Object.keys(variants))('%s', (variant) => {
      it.each(taskNames)(
        'trains %s nearly as f32 does, with the same bits on every rank',
        (task) => {
          const each = ranks.flatMap((rank) => rank[`${variant}: ${task}`] ?? []);
          expect(each).toHaveLength(size);
          const expected = alone.get(task)?.losses ?? [];
          expect(expected).toHaveLength(steps);
          expected.forEach((loss, step) => {
            const mean = each.reduce((sum, { losses }) => sum + (losses[step] ?? NaN), 0) / size;
            expect(Math.abs(mean - loss) / loss, `step ${step}`).toBeLessThan(TOLERANCE);
          });
          expect(new Set(each.map(({ hash }) => hash)).size).toBe(1);
        },
      );
    });
  });
}
