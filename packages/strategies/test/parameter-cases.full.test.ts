import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { models, type Outcome, outcomes, strategies, trainAlone } from './ranks/parameter-cases.ts';
import { testMs, trainingMs } from './time-limits.ts';

/** The parameters that keep their values in some cases. */
const kept: Readonly<Record<string, readonly string[]>> = {
  'frozen parameters': ['down.bias', 'first.weight', 'first.bias'],
  'a module that is never used': ['spare.weight', 'spare.bias'],
};

const alone = new Map<string, Outcome>();

beforeAll(async () => {
  setRank({ device: await cpu() });
  for (const name of Object.keys(models)) alone.set(name, await trainAlone(name));
}, testMs);

describe.each([2, 3, 4])('on %i ranks', (size) => {
  let ranks: readonly z.infer<typeof outcomes>[] = [];

  beforeAll(async () => {
    const found = await spawnRanks(size, new URL('./ranks/parameter-cases.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 }),
      timeoutMs: trainingMs,
    });
    ranks = z.array(outcomes).length(size).parse(found);
  }, testMs);

  describe.each(Object.keys(strategies))('%s', (strategy) => {
    it.each(Object.keys(models))('trains as one rank does: %s', (name) => {
      const expected = alone.get(name);
      const each = ranks.flatMap((rank) => rank[`${strategy}: ${name}`] ?? []);
      expect(each).toHaveLength(size);
      expected?.losses.forEach((loss, step) => {
        const mean = each.reduce((sum, { losses }) => sum + (losses[step] ?? NaN), 0) / size;
        expect(Math.abs(mean - loss) / loss).toBeLessThan(1e-5);
      });
      for (const { parameters, unchanged } of each) {
        expect(parameters).toEqual(each[0]?.parameters);
        expect(Object.keys(parameters)).toEqual(Object.keys(expected?.parameters ?? {}));
        expect(unchanged).toEqual(kept[name] ?? []);
        for (const [parameter, values] of Object.entries(parameters)) {
          values.forEach((value, index) => {
            const difference = value - (expected?.parameters[parameter]?.[index] ?? NaN);
            expect(Math.abs(difference), `${parameter}[${index}]`).toBeLessThan(2e-5);
          });
        }
      }
    });
  });
});
