import { createThreadsWorld } from '@shardwise/collectives';
import { assertAllclose } from '@shardwise/testing';
import { spawnRanks } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  models,
  strategyNames,
  type StrategyName,
  type Training,
  trainings,
} from './ranks/train-encoder.ts';

const timeoutMs = 120_000;

async function ranksOf(
  size: number,
  strategy: StrategyName | 'one rank',
): Promise<readonly Readonly<Record<string, Training>>[]> {
  const found = await spawnRanks(size, new URL('ranks/train-encoder.ts', import.meta.url), {
    world: createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 }),
    data: strategy,
    timeoutMs,
  });
  return z.array(trainings).length(size).parse(found);
}

describe('an encoder on two ranks', { timeout: 2 * timeoutMs }, () => {
  const alone = ranksOf(1, 'one rank');

  test.each(strategyNames)('trains under %s as on one rank', async (strategy) => {
    const [expected = {}] = await alone;
    const ranks = await ranksOf(2, strategy);
    const isDivided = ['DDP', 'ZeRO-3', 'FSDP'].includes(strategy);
    for (const [title, { losses, state }] of Object.entries(expected)) {
      const found = ranks.flatMap(({ [title]: training }) => training ?? []);
      if (found.length === 0) {
        expect(models[title]?.styles, title).toBeUndefined();
        continue;
      }
      for (const [step, loss] of losses.entries()) {
        const each = found.map((training) => training.losses[step] ?? Number.NaN);
        const mean = each.reduce((sum, value) => sum + value, 0) / each.length;
        expect(isDivided ? mean : each[0], `${title}, step ${step}`).toBeCloseTo(loss, 5);
      }
      for (const training of found) {
        expect(Object.keys(training.state)).toEqual(Object.keys(state));
        for (const [name, values] of Object.entries(state)) {
          assertAllclose(training.state[name] ?? [], values, { rtol: 1e-4, atol: 1e-5 });
        }
      }
    }
  });
});
