import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { manualSeed, setRank } from '@shardwise/core';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { rows, type Step } from './ranks/expert-models.ts';
import { lossOf, outcome, stack, trainStack } from './ranks/expert-stages.ts';
import { trainingMs } from './time-limits.ts';

describe('experts in stages of a pipeline', () => {
  let alone: readonly Step[] = [];

  beforeAll(async () => {
    setRank({ device: await cpu() });
    manualSeed(0);
    const model = stack();
    alone = await trainStack(model, (x, y) => lossOf(model)(model.forward(x), y), 0, rows);
  });

  it.each([
    ['pp × ep', [2, 2, 1], 'ep'],
    ['pp × ep × ddp', [2, 2, 2], 'ep'],
    ['pp × experts over tp', [2, 2, 1], 'tp'],
  ] as const)(
    '%s train as on one rank',
    async (_, [pp, ep, dp], axis) => {
      const axes = [
        { name: 'pp', size: pp },
        ...(dp === 1 ? [] : [{ name: 'dp', size: dp }]),
        { name: axis, size: ep },
      ];
      const size = pp * ep * dp;
      const found = await spawnRanks(size, new URL('./ranks/expert-stages.ts', import.meta.url), {
        world: createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 }),
        data: axes,
        timeoutMs: trainingMs,
      });
      const ranks = z.array(outcome).length(size).parse(found);
      alone.forEach(({ loss, norm }, step) => {
        const mean = ranks.reduce((sum, each) => sum + (each[step]?.loss ?? NaN), 0) / size;
        expect(mean / loss, `loss of step ${step}`).toBeCloseTo(1, 4);
        for (const each of ranks) {
          expect((each[step]?.norm ?? NaN) / norm, `norm of step ${step}`).toBeCloseTo(1, 4);
        }
      });
    },
    130_000,
  );
});
