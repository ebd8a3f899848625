import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { manualSeed, setRank } from '@shardwise/core';
import { spawnRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { found, SequenceModel, train } from './ranks/expert-sequences.ts';

it('experts route the parts of sequences that sequence parallelism gives ranks, and train as on one rank', async () => {
  setRank({ device: await cpu() });
  manualSeed(0);
  const model = new SequenceModel(true);
  const alone = await train(model, (x) => model.forward(x));
  const results = await spawnRanks(4, new URL('./ranks/expert-sequences.ts', import.meta.url), {
    world: createThreadsWorld({ size: 4, arenaBytes: 16 * 1024 * 1024 }),
  });
  const ranks = z.array(found).length(4).parse(results);
  alone.forEach((loss, step) => {
    const mean = ranks.reduce((sum, { losses }) => sum + (losses[step] ?? NaN), 0) / 4;
    expect(mean / loss, `loss of step ${step}`).toBeCloseTo(1, 4);
  });
  // The layer does not gather tokens that the ranks already have in parts.
  expect(ranks.map(({ gathers }) => gathers)).toEqual([0, 0, 0, 0]);
});
