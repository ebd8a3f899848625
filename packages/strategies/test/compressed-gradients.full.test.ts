import {
  bf16CompressHook,
  type CommHook,
  ddp,
  f16CompressHook,
  powerSgdHook,
} from '@shardwise/strategies';
import { stepCounts } from './ranks/step-counts.ts';
import { testStrategyTable, type Variant } from './strategy-table-worlds.ts';

const compressed = (hook: () => CommHook, tolerance: number): Variant => ({
  strategy: () => ddp({ staticGraph: true, commHook: hook() }),
  tolerance,
});

/** Rounded gradients give nearly the same steps, while PowerSGD takes different steps. */
const variants = {
  'DDP with f16CompressHook': compressed(() => f16CompressHook, 2e-2),
  'DDP with bf16CompressHook': compressed(() => bf16CompressHook, 2e-2),
  'DDP with powerSgdHook of two columns': compressed(
    () => powerSgdHook({ matrixApproximationRank: 2, startIteration: 2, minCompressionRate: 1 }),
    0.25,
  ),
};

testStrategyTable(variants, [3], { steps: stepCounts.many });
