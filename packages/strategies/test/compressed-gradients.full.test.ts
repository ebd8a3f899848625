import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { type hooks, steps } from './ranks/compressed-gradients.ts';
import { taskNames } from './ranks/models.ts';
import { results, trainAlone, type Trained } from './ranks/strategy-table.ts';
import { testMs, trainingMs } from './time-limits.ts';

/** The tolerances of the loss. Rounded gradients give nearly the same steps, while PowerSGD takes different steps. */
const tolerances: Readonly<Record<keyof typeof hooks, number>> = {
  f16CompressHook: 2e-2,
  bf16CompressHook: 2e-2,
  'powerSgdHook of two columns': 0.25,
};
const size = 3;
const alone = new Map<string, Trained>();
let ranks: readonly z.infer<typeof results>[] = [];

beforeAll(async () => {
  setRank({ device: await cpu() });
  for (const task of taskNames) alone.set(task, await trainAlone(task, steps));
  const world = createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 });
  const url = new URL('./ranks/compressed-gradients.ts', import.meta.url);
  ranks = z.array(results).parse(await runRanks(size, url, { world, timeoutMs: trainingMs }));
}, testMs);

describe.each(Object.entries(tolerances))('DDP with %s', (hook, tolerance) => {
  it.each(taskNames)('trains %s nearly as one rank does, with the same bits on all', (task) => {
    const each = ranks.flatMap((rank) => rank[`${hook}: ${task}`] ?? []);
    expect(each).toHaveLength(size);
    const expected = alone.get(task)?.losses ?? [];
    expect(expected).toHaveLength(steps);
    expected.forEach((loss, step) => {
      const mean = each.reduce((sum, { losses }) => sum + (losses[step] ?? NaN), 0) / size;
      expect(Math.abs(mean - loss) / loss, `step ${step}`).toBeLessThan(tolerance);
    });
    expect(new Set(each.map(({ hash }) => hash)).size).toBe(1);
  });
});
