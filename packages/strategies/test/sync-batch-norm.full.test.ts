import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { describeDifference } from '@shardwise/testing';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { build, strategies, train, type Training, trainings } from './ranks/sync-batch-norm.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 3;
let ranks: readonly z.infer<typeof trainings>[] = [];
let alone: Training | undefined;

beforeAll(async () => {
  setRank({ device: await cpu() });
  const model = build();
  alone = await train(model, (x) => model.forward(x), { rank: 0, size: 1 });
  const url = new URL('./ranks/sync-batch-norm.ts', import.meta.url);
  const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
  ranks = z.array(trainings).parse(await spawnRanks(size, url, { world, timeoutMs: trainingMs }));
}, testMs);

function close(found: readonly number[] = [], expected: readonly number[] = []): void {
  expect(found).toHaveLength(expected.length);
  expect(describeDifference(found, expected, { rtol: 1e-4, atol: 1e-5 })).toBeUndefined();
}

describe.each(Object.keys(strategies))('SyncBatchNorm under %s', (strategy) => {
  const each = (): (Training | undefined)[] => ranks.map((rank) => rank[strategy]);

  it('is batch norm of the whole batch on one rank: losses, parameters and statistics', () => {
    const losses = alone?.losses.map(
      (_, step) => each().reduce((sum, rank) => sum + (rank?.losses[step] ?? NaN), 0) / size,
    );
    close(losses, alone?.losses);
    for (const rank of each()) {
      expect(rank?.state).toEqual(each()[0]?.state);
      for (const [name, values] of Object.entries(alone?.state ?? {})) {
        close(rank?.state[name], values);
      }
    }
  });

  it('and an average of weights is that of one rank, in state dicts and in evaluation', () => {
    for (const rank of each()) {
      expect(Object.keys(rank?.average ?? {})).toEqual(Object.keys(alone?.average ?? {}));
      for (const [name, values] of Object.entries(alone?.average ?? {})) {
        close(rank?.average[name], values);
      }
      alone?.evaluated.forEach((outputs, which) => close(rank?.evaluated[which], outputs));
    }
  });
});
