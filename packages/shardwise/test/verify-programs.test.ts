import { createThreadsWorld } from '@shardwise/collectives';
import { expect, it } from 'vitest';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { drawnPrograms } from './ranks/verify-programs.ts';

it('finds nothing in right programs: random models, strategies, losses and optimizers', async () => {
  const module = new URL('./ranks/verify-programs.ts', import.meta.url);
  const world = createThreadsWorld({ size: 2 });
  const seeds = [0, 1, 5, 6, 10, 11];
  const [found] = await runRanks(2, module, { world, data: seeds, timeoutMs: 120_000 });
  const drawn = drawnPrograms.parse(found);
  expect(drawn.filter(({ verification }) => verification.finding !== null)).toEqual([]);
  expect(drawn).toHaveLength(seeds.length);
  for (const { verification } of drawn) expect(verification.compared).toBeGreaterThan(40);
}, 150_000);
