import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { describeDifference } from '@shardwise/testing';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { build, strategies, train, type Training, trainings } from './ranks/library-modules.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 2;
let ranks: readonly z.infer<typeof trainings>[] = [];
let alone: Training | undefined;

beforeAll(async () => {
  setRank({ device: await cpu() });
  const model = build();
  alone = await train(model, (x) => model.forward(x), { rank: 0, size: 1 });
  const url = new URL('./ranks/library-modules.ts', import.meta.url);
  const world = createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 });
  ranks = z.array(trainings).parse(await spawnRanks(size, url, { world, timeoutMs: trainingMs }));
}, testMs);

it.each(Object.keys(strategies))(
  'recurrent, Transformer and convolution layers, norms and containers train under %s as on one rank',
  (strategy) => {
    const each = ranks.map((rank) => rank[strategy]);
    const mean = alone?.losses.map(
      (_, step) => each.reduce((sum, rank) => sum + (rank?.losses[step] ?? NaN), 0) / size,
    );
    const tolerance = { rtol: 1e-3, atol: 1e-5 };
    expect(describeDifference(mean ?? [], alone?.losses ?? [], tolerance)).toBeUndefined();
    for (const rank of each) {
      expect(Object.keys(rank?.state ?? {})).toEqual(Object.keys(alone?.state ?? {}));
      for (const [name, values] of Object.entries(alone?.state ?? {})) {
        const found = rank?.state[name] ?? [];
        expect(describeDifference(found, values, tolerance), name).toBeUndefined();
      }
    }
  },
);
