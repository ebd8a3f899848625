import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { cases, type Outcome, outcomes, runAlone, variants } from './ranks/sharding-cases.ts';
import { testMs, trainingMs } from './time-limits.ts';

/**
 * Tests in worlds of these sizes that every strategy that shards states trains like one rank, for models that are hard
 * to cut.
 */
export function testShardingCases(sizes: readonly number[]): void {
  const alone = new Map<string, Outcome>();

  beforeAll(async () => {
    setRank({ device: await cpu() });
    for (const name of Object.keys(cases)) alone.set(name, await runAlone(name));
  }, testMs);

  describe.each(sizes)('on %i ranks', (size) => {
    let ranks: readonly z.infer<typeof outcomes>[] = [];

    beforeAll(async () => {
      const found = await spawnRanks(size, new URL('./ranks/sharding-cases.ts', import.meta.url), {
        world: createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 }),
        timeoutMs: trainingMs,
      });
      ranks = z.array(outcomes).length(size).parse(found);
    }, testMs);

    const possible = Object.entries(variants).filter(([, { ranks: only = size }]) => only === size);

    describe.each(possible.map(([name]) => name))('%s', (strategy) => {
      it.each(Object.keys(cases))('ends as one rank does: %s', (name) => {
        const expected = alone.get(name);
        const names = Object.keys(expected?.parameters ?? {});
        expect(names).toHaveLength(10);
        for (const rank of ranks) {
          const found = rank[`${strategy}: ${name}`];
          expect(Object.keys(found?.parameters ?? {})).toEqual(names);
          expectClose(found?.numbers, expected?.numbers);
          for (const each of names) {
            expectClose(found?.parameters[each], expected?.parameters[each]);
          }
        }
      });
    });
  });
}

/** Compares results whose sums were added in another order. Adam's division can enlarge the rounding differences. */
function expectClose(found: readonly number[] = [], expected: readonly number[] = []): void {
  expect(found).toHaveLength(expected.length);
  expected.forEach((value, index) => {
    expect(Math.abs((found[index] ?? NaN) - value)).toBeLessThan(
      2e-5 * Math.max(1, Math.abs(value)),
    );
  });
}
