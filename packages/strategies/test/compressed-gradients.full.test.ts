import type { Strategy } from '@shardwise/core';
import {
  bf16CompressHook,
  type CommHook,
  ddp,
  f16CompressHook,
  powerSgdHook,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { taskNames, tasks } from './ranks/models.ts';
import { stepCounts } from './ranks/step-counts.ts';
import { train, trainAlone } from './strategy-table-worlds.ts';

const steps = stepCounts.many;

const hooks: Readonly<Record<string, () => CommHook>> = {
  f16CompressHook: () => f16CompressHook,
  bf16CompressHook: () => bf16CompressHook,
  'powerSgdHook of two columns': () =>
    powerSgdHook({ matrixApproximationRank: 2, startIteration: 2, minCompressionRate: 1 }),
};

/** The tolerances of the loss. Rounded gradients give nearly the same steps, while PowerSGD takes different steps. */
const tolerances: Readonly<Record<keyof typeof hooks, number>> = {
  f16CompressHook: 2e-2,
  bf16CompressHook: 2e-2,
  'powerSgdHook of two columns': 0.25,
};
const size = 3;
describe.each(Object.entries(hooks))('DDP with %s', (name, hook) => {
  const tolerance = tolerances[name] ?? NaN;

  it.each(taskNames)(
    'trains %s nearly as one rank does, with the same bits on all',
    async (task) => {
      const [alone] = await onRanks(1, () => trainAlone(task, steps), onCpu);
      const strategy = (): Strategy => ddp({ staticGraph: true, commHook: hook() });
      const each = await onRanks(
        size,
        (place) => train({ strategy }, tasks[task], place, steps),
        onCpu,
      );
      const expected = alone?.losses ?? [];
      expect(expected).toHaveLength(steps);
      expected.forEach((loss, step) => {
        const mean = each.reduce((sum, { losses }) => sum + (losses[step] ?? NaN), 0) / size;
        expect(Math.abs(mean - loss) / loss, `step ${step}`).toBeLessThan(tolerance);
      });
      expect(new Set(each.map(({ hash }) => hash)).size).toBe(1);
    },
  );
});
