import { expect, it } from 'vitest';
import { meanReward, updatesOf } from './support/grpo-updates.ts';

it('the example of GRPO learns three-digit addition by rewards from at most 0.2 to at least 0.6, and each ratio is exactly 1', async () => {
  const updates = await updatesOf(2, ['--steps', '150']);
  expect(updates).toHaveLength(150);
  const rewards = updates.map(({ mean }) => mean);
  expect(rewards[0], String(rewards)).toBeLessThanOrEqual(0.2);
  expect(meanReward(updates.slice(-20)), String(rewards)).toBeGreaterThanOrEqual(0.6);
  for (const update of updates) expect(update).toMatchObject({ least: 1, most: 1 });
}, 1_800_000);
