import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { manualSeed, setRank } from '@shardwise/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { balanced, ExpertModel, rows, type Step, trainSteps } from './ranks/expert-models.ts';
import { cases, type Outcome, outcomes } from './ranks/experts.ts';
import { testMs, trainingMs } from './time-limits.ts';

/** Adds the tests of a world of this size. */
export function testExpertWorld(size: number): void {
  describe(`experts among ${size} ranks`, () => {
    let alone: Outcome = { steps: [], weights: {} };
    let ranks: readonly z.infer<typeof outcomes>[] = [];

    beforeAll(async () => {
      setRank({ device: await cpu() });
      manualSeed(0);
      const model = new ExpertModel(balanced([]));
      const steps = await trainSteps(model, (x) => model.forward(x), { start: 0, count: rows });
      const state = Object.entries(await model.stateDict()).map(([key, { bytes }]) => {
        return [key, [...new Float32Array(bytes.slice().buffer)]] as [string, number[]];
      });
      alone = { steps, weights: Object.fromEntries(state) };
      const found = await runRanks(size, new URL('./ranks/experts.ts', import.meta.url), {
        world: createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 }),
        timeoutMs: trainingMs,
      });
      ranks = z.array(outcomes).length(size).parse(found);
    }, testMs);

    it.each(Object.entries(cases[size] ?? {}))('%s train as on one rank', (name, own) => {
      const { tolerance = 5e-5 } = own;
      const each = ranks.flatMap((rank) => rank[name] ?? []);
      expect(each).toHaveLength(size);
      alone.steps.forEach(({ loss, norm }: Step, step) => {
        const mean = each.reduce((sum, { steps }) => sum + (steps[step]?.loss ?? NaN), 0) / size;
        expect(Math.abs(mean / loss - 1), `loss of step ${step}`).toBeLessThan(tolerance);
        for (const { steps } of each) {
          const own = (steps[step]?.norm ?? NaN) / norm;
          expect(Math.abs(own - 1), `norm of step ${step}`).toBeLessThan(2 * tolerance);
        }
      });
      for (const { weights } of each) {
        expect(Object.keys(weights)).toEqual(Object.keys(alone.weights));
        for (const [key, expected] of Object.entries(alone.weights)) {
          weights[key]?.forEach((x, index) =>
            expect(Math.abs(x - (expected[index] ?? NaN)), key).toBeLessThan(2 * tolerance),
          );
        }
      }
    });
  });
}
