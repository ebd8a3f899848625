import { readFile } from 'node:fs/promises';
import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { taskNames } from './ranks/models.ts';
import { stepCounts } from './ranks/step-counts.ts';
import { results, trainAlone, variants } from './ranks/strategy-table.ts';
import { testMs, trainingMs } from './time-limits.ts';

/** The tolerance for sums that were added in another order. */
const TOLERANCE = 1e-5;

/** The mean loss of each step by task: ours on one rank, and PyTorch's (tools/golden-strategy-table.py). */
const oracles = { 'one rank': new Map<string, number[]>(), PyTorch: new Map<string, number[]>() };
const golden = z.object({
  losses: z.record(z.string(), z.array(z.number()).length(stepCounts.many)),
});

/** Adds the tests of worlds of these sizes, which train this many steps. */
export function testStrategyTable(sizes: readonly number[], steps: number): void {
  beforeAll(async () => {
    const recorded = await readFile(new URL('golden/strategy-table.json', import.meta.url), 'utf8');
    const { losses } = golden.parse(JSON.parse(recorded));
    setRank({ device: await cpu() });
    for (const task of taskNames) {
      oracles.PyTorch.set(task, losses[task]?.slice(0, steps) ?? []);
      oracles['one rank'].set(task, (await trainAlone(task, steps)).losses);
    }
  }, testMs);

  it.each(taskNames)('one rank trains %s as PyTorch does', (task) => {
    expect(oracles.PyTorch.get(task)).toHaveLength(steps);
    expectSameLosses(oracles['one rank'].get(task), oracles.PyTorch.get(task));
  });

  describe.each(sizes)('on %i ranks', (size) => {
    let ranks: readonly z.infer<typeof results>[] = [];

    beforeAll(async () => {
      const world = createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 });
      const found = await spawnRanks(size, new URL('./ranks/strategy-table.ts', import.meta.url), {
        world,
        data: steps,
        timeoutMs: trainingMs,
      });
      ranks = z.array(results).parse(found);
    }, testMs);

    const possible = Object.entries(variants).filter(([, { ranks: only = size }]) => only === size);

    describe.each(possible.map(([name]) => name))('%s', (variant) => {
      it.each(taskNames)('trains %s as one rank and as PyTorch do', (task) => {
        const each = ranks.flatMap((rank) => rank[`${variant}: ${task}`] ?? []);
        expect(each).toHaveLength(size);
        const means = Array.from(
          { length: steps },
          (_, step) => each.reduce((sum, { losses }) => sum + (losses[step] ?? NaN), 0) / size,
        );
        for (const losses of Object.values(oracles)) expectSameLosses(means, losses.get(task));
        expect(new Set(each.map(({ hash }) => hash)).size).toBe(1);
      });
    });
  });
}

function expectSameLosses(actual: readonly number[] = [], expected: readonly number[] = []): void {
  expect(actual).toHaveLength(expected.length);
  expected.forEach((loss, step) => {
    const difference = Math.abs((actual[step] ?? NaN) - loss);
    expect(difference / loss, `step ${step}`).toBeLessThan(TOLERANCE);
  });
}
