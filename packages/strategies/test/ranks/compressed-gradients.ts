import {
  bf16CompressHook,
  type CommHook,
  ddp,
  f16CompressHook,
  powerSgdHook,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import type { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { taskNames, tasks } from './models.ts';
import { stepCounts } from './step-counts.ts';
import { type results, train, type Trained } from './strategy-table.ts';

export const steps = stepCounts.many;

export const hooks: Readonly<Record<string, () => CommHook>> = {
  f16CompressHook: () => f16CompressHook,
  bf16CompressHook: () => bf16CompressHook,
  'powerSgdHook of two columns': () =>
    powerSgdHook({ matrixApproximationRank: 2, startIteration: 2, minCompressionRate: 1 }),
};

/** Trains every task with every hook on this rank. */
export async function main(context: RankContext): Promise<z.infer<typeof results>> {
  await join(context);
  const found: Record<string, Trained> = {};
  for (const [name, hook] of Object.entries(hooks)) {
    for (const task of taskNames) {
      const strategy = () => ddp({ staticGraph: true, commHook: hook() });
      found[`${name}: ${task}`] = await train({ strategy }, tasks[task], context, steps);
    }
  }
  return found;
}
