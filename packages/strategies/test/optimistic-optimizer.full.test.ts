import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type OptimisticTask, optimizers, outcome } from './ranks/optimistic-optimizer.ts';
import { testMs, trainingMs } from './time-limits.ts';

const two = { schedule: 'zb1p', cut: ['blocks.2'] } as const;
const four = ['blocks.1', 'blocks.2', 'blocks.3'];
const [always, never] = [0.05, 1e6];
const names = Object.keys(optimizers).filter(
  (name) => name in optimizers,
) as (keyof typeof optimizers)[];

const tasks: Readonly<Record<string, OptimisticTask>> = {
  ...Object.fromEntries(
    names.flatMap((optimizer): [string, OptimisticTask][] => [
      [`${optimizer} that is clipped`, { optimizer, ...two, maxNorm: always }],
      [`${optimizer} that is not clipped`, { optimizer, ...two, maxNorm: never }],
    ]),
  ),
  GPipe: { optimizer: 'AdamW', schedule: 'gpipe', cut: ['blocks.2'], maxNorm: always },
  '1F1B with a weight on two stages, and dropout': {
    optimizer: 'AdamW',
    schedule: '1f1b',
    cut: ['blocks.2'],
    maxNorm: always,
    tied: true,
    dropout: 0.2,
  },
  'scaled losses, clipped': {
    optimizer: 'AdamW',
    schedule: '1f1b',
    cut: ['blocks.2'],
    maxNorm: always,
    scaled: true,
  },
  'scaled losses': {
    optimizer: 'Adam',
    schedule: 'zb1p',
    cut: ['blocks.2'],
    maxNorm: never,
    scaled: true,
  },
  ZBV: { optimizer: 'AdamW', schedule: 'zbv', cut: four, maxNorm: always },
  'interleaved 1F1B': {
    optimizer: 'AdamW',
    schedule: 'interleaved1f1b',
    cut: four,
    maxNorm: always,
  },
};

describe('steps ahead of their verdict', () => {
  let ranks: readonly z.infer<typeof outcome>[] = [];

  beforeAll(async () => {
    const world = createThreadsWorld({ size: 2, arenaBytes: 32 * 1024 * 1024 });
    const moduleUrl = new URL('./ranks/optimistic-optimizer.ts', import.meta.url);
    const options = { world, data: tasks, timeoutMs: trainingMs };
    ranks = z.array(outcome).parse(await spawnRanks(2, moduleUrl, options));
  }, testMs);

  it.each(Object.keys(tasks))('have the bits of those that wait for it: %s', (name) => {
    for (const rank of ranks) {
      const { waiting, ahead } = rank[name] ?? expect.fail(name);
      expect(ahead.losses).toEqual(waiting.losses);
      expect(ahead.norms).toEqual(waiting.norms);
      expect(ahead.taken).toEqual(waiting.taken);
      expect(ahead.scaler).toEqual(waiting.scaler);
      expect(ahead.states === waiting.states, 'parameters and states').toBe(true);
      expect(ahead.losses.every(Number.isFinite)).toBe(true);
    }
  });

  it('scale the next losses as those that wait: the scale shrinks and grows', () => {
    for (const rank of ranks) {
      const { ahead } = rank['scaled losses'] ?? expect.fail();
      // The overflow in the third step halves the scale. Two steps without overflow double it again.
      const state = { scale: 2 ** 10, iteration: 6, lastOverflowIteration: 2, hysteresisLeft: 1 };
      expect(ahead.scaler).toEqual(state);
    }
  });

  it('steps ahead of their verdict say what they keep until then', () => {
    const { explained } = ranks[0]?.['AdamW that is clipped'] ?? expect.fail();
    expect(explained).toMatch(/^steps ahead of the verdict: .*: [1-9]\d+ bytes$/);
  });
});
