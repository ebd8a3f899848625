import { cpu } from '@shardwise/backend-cpu';
import { setRank } from '@shardwise/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { largestDifference, secondHalves } from './resharding.ts';
import {
  reshardingOf,
  runHalf,
  strategyNames,
  type StrategyResharding,
  trainAlone,
} from './strategy-resharding.ts';
import { testMs } from './time-limits.ts';

// Every strategy is saved and then loaded on more ranks and on fewer. The slow test has all combinations.
const worlds = [
  [3, 1],
  [1, 4],
  [4, 2],
] as const;

const reshardings: readonly StrategyResharding[] = worlds.flatMap(([savedOn, loadedOn], shift) =>
  strategyNames.map((saved, index) => ({
    task: shift === 0 ? 'a GPT' : 'an odd MLP',
    saved,
    savedOn,
    loaded: strategyNames[(index + shift) % strategyNames.length] ?? saved,
    loadedOn,
  })),
);

describe('a training that is saved and continued', () => {
  const alone = new Map<string, readonly number[]>();
  let losses: readonly (readonly number[])[] = [];

  beforeAll(async () => {
    setRank({ device: await cpu() });
    for (const task of ['a GPT', 'an odd MLP'] as const) alone.set(task, await trainAlone(task));
    ({ losses } = await secondHalves(runHalf, reshardings.map(reshardingOf)));
  }, testMs);

  it.each(reshardings.map((each, index) => ({ ...each, index })))(
    'with $saved on $savedOn ranks, then $loaded on $loadedOn, goes on as one rank does: $task',
    ({ task, index }) => {
      expect(largestDifference(losses[index] ?? [], alone.get(task) ?? [])).toBeLessThan(1e-5);
    },
  );
});
