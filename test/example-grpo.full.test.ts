import { describe, expect, it } from 'vitest';
import { updatesOf } from './support/grpo-updates.ts';

/** A model and problems of which a run takes seconds. */
const few =
  '--digits 1 --layers 1 --channels 32 --heads 2 --pretraining-steps 100 --pretraining-loss 0 --pretraining-batch-size 16 ' +
  '--learning-rate 1e-3 --problems-per-step 8 --num-generations 8';

describe('the example of GRPO', { timeout: 300_000 }, () => {
  it.each([1, 2])(
    'has ratios of exactly 1 at the first update of each rollout, and others later, on %i ranks',
    async (ranks) => {
      const options = `${few} --num-iterations 2 --beta 0.04 --steps 6 --loss-type dapo`;
      const updates = await updatesOf(ranks, options.split(' '));
      expect(updates).toHaveLength(6);
      for (const [index, update] of updates.entries()) {
        expect(update).toMatchObject({ step: index + 1, update: 1 + (index % 2) });
        // Some answers are right and some are not, so every update changes the weights.
        expect(update.mean).toBeGreaterThan(0);
        expect(update.mean).toBeLessThan(1);
        if (index % 2 === 0) expect(update).toMatchObject({ least: 1, most: 1 });
        else expect(update).not.toMatchObject({ least: 1, most: 1 });
      }
    },
  );
});
