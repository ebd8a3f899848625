import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type differences, names, observations } from './ranks/step-settings.ts';

const size = 2;

async function train(
  strategy: string,
  difference: (typeof differences)[number],
  readers: readonly number[] = [],
): Promise<readonly z.infer<typeof observations>[]> {
  const found = await spawnRanks(size, new URL('./ranks/step-settings.ts', import.meta.url), {
    world: createThreadsWorld({ size, arenaBytes: 1024 * 1024 }),
    data: { strategy, difference, readers },
  });
  return z.array(observations).length(size).parse(found);
}

const all = [
  ['lr', 'AdamW.step(): lr is 0.001 on rank 0 and 0.002 on rank 1.'],
  ['lr of a group', 'AdamW.step(): lr'],
  ['weightDecay', 'AdamW.step(): weightDecay is 0.25 on rank 0 and 0.5 on rank 1.'],
  ['betas', 'AdamW.step(): betas is [0.9, 0.999] on rank 0 and [0.9, 0.99] on rank 1.'],
  ['maxNorm', 'clipGradNorm(): maxNorm is 1 on rank 0 and 2 on rank 1.'],
  ['no clipping', 'what it calls is clipGradNorm() on rank 0 and AdamW.step() on rank 1.'],
  ['scale', 'scale is 8 on rank 0 and 4 on rank 1.'],
  ['optimizer', 'what it calls is AdamW.step() on rank 0 and Adam.step() on rank 1.'],
] as const;

describe('a setting that one rank has otherwise', () => {
  it.each(all)('is the error of that step on all ranks, with ddp: %s', async (name, message) => {
    for (const { steps, error, isUnchanged } of await train('ddp', name)) {
      expect(error).toMatchObject({ code: 'COLLECTIVE_MISMATCH' });
      expect(error?.message).toContain(message);
      expect({ steps, isUnchanged }).toEqual({ steps: 1, isUnchanged: true });
    }
  });

  it.each(names)('is the error of that step on all ranks, with %s', async (strategy) => {
    for (const { steps, error, isUnchanged } of await train(strategy, 'lr')) {
      expect(error?.message).toContain('AdamW.step(): lr is 0.001 on rank 0 and 0.002 on rank 1.');
      expect(error).toMatchObject({ code: 'COLLECTIVE_MISMATCH' });
      expect({ steps, isUnchanged }).toEqual({ steps: 1, isUnchanged: true });
    }
  });

  it('because it forgot to step its scheduler is the error of the step after that', async () => {
    for (const { steps, error } of await train('ddp', 'scheduler')) {
      expect(error?.message).toContain(
        'AdamW.step(): lr is 0.00025 on rank 0 and 0.0005 on rank 1.',
      );
      expect(steps).toBe(2);
    }
  });

  it.each([[[0]], [[1]], [[0, 1]]])(
    'is the error of the next step if ranks %s have read the loss before the step',
    async (readers) => {
      for (const { steps, error } of await train('ddp', 'lr', readers)) {
        expect(error).toMatchObject({ code: 'COLLECTIVE_MISMATCH' });
        expect(error?.message).toContain(
          'AdamW.step(): lr is 0.001 on rank 0 and 0.002 on rank 1, in a step that was made already.',
        );
        expect(steps).toBe(2);
      }
    },
  );
});

it.each(names)('equal settings are no error, whoever reads early: %s', async (strategy) => {
  for (const readers of [[], [1]]) {
    for (const { steps, error } of await train(strategy, 'nothing', readers)) {
      expect({ steps, error }).toEqual({ steps: 4, error: null });
    }
  }
});

it.each([
  ['of no strategy', false],
  ['declared to vary, as in local SGD', true],
])('ranks that train models of their own may have settings of their own: %s', async (_, data) => {
  const found = await spawnRanks(size, new URL('./ranks/step-settings.ts', import.meta.url), {
    name: 'apart',
    data,
    world: createThreadsWorld({ size, arenaBytes: 1024 * 1024 }),
  });
  expect(found).toEqual([
    [1, 3, 5],
    [1, 3, 5],
  ]);
});
