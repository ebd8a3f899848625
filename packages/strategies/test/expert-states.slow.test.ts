import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { manualSeed, optim, setRank } from '@shardwise/core';
import { spawnRanks } from '@shardwise/testing/node';
import { checkpoints } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { batch, rows, settings } from './ranks/expert-models.ts';
import { build, grids, losses, takeStep } from './ranks/expert-states.ts';
import { testMs, trainingMs } from './time-limits.ts';

describe.each(Object.keys(grids))(
  'experts that four ranks build and train in parts: %s',
  (grid) => {
    let directory = '';
    let means: readonly number[] = [];

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'shardwise-experts-'));
      const found = await spawnRanks(4, new URL('./ranks/expert-states.ts', import.meta.url), {
        world: createThreadsWorld({ size: 4, arenaBytes: 16 * 1024 * 1024 }),
        data: { directory: join(directory, 'step'), grid },
        timeoutMs: trainingMs,
      });
      const ranks = z.array(losses).length(4).parse(found);
      means = [0, 1, 2].map((step) => ranks.reduce((sum, own) => sum + (own[step] ?? NaN), 0) / 4);
      setRank({ device: await cpu() });
    }, testMs);

    afterAll(() => rm(directory, { recursive: true, force: true }));

    it('train as on one rank', async () => {
      manualSeed(0);
      const model = build();
      const optimizer = new optim.AdamW(model.parameters(), settings);
      for (const [step, mean] of means.entries()) {
        const loss = await takeStep((x) => model.forward(x), optimizer, batch(step, 0, rows));
        expect(loss / mean).toBeCloseTo(1, 4);
      }
    });

    it('go on from their checkpoint on one rank, which has all experts', async () => {
      manualSeed(5);
      const model = build();
      const optimizer = new optim.AdamW(model.parameters(), settings);
      const checkpoint = await checkpoints.load(join(directory, 'step'));
      await checkpoints.loadModel(checkpoint, model);
      await checkpoints.loadOptimizer(checkpoint, model, optimizer);
      const loss = await takeStep((x) => model.forward(x), optimizer, batch(2, 0, rows));
      expect(loss / (means[2] ?? NaN)).toBeCloseTo(1, 4);
    });
  },
);
