import { cpu } from '@shardwise/backend-cpu';
import { setRank } from '@shardwise/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { taskNames } from './ranks/models.ts';
import { largestDifference, secondHalves } from './resharding.ts';
import {
  reshardingOf,
  runHalf,
  strategyNames,
  type StrategyResharding,
  trainAlone,
} from './strategy-resharding.ts';

const sizes = [1, 2, 3, 4];

describe.each(taskNames)('%s that is saved and continued', (task) => {
  const reshardings: readonly StrategyResharding[] = sizes.flatMap((savedOn) =>
    sizes.flatMap((loadedOn) =>
      strategyNames.flatMap((saved) =>
        strategyNames.map((loaded) => ({ task, saved, savedOn, loaded, loadedOn })),
      ),
    ),
  );
  let alone: readonly number[] = [];
  let losses: readonly (readonly number[])[] = [];

  beforeAll(async () => {
    setRank({ device: await cpu() });
    alone = await trainAlone(task);
    ({ losses } = await secondHalves(runHalf, reshardings.map(reshardingOf)));
  }, 3_600_000);

  it.each(strategyNames)(
    'with %s goes on as one rank does, with any strategy on 1 to 4 ranks',
    (saved) => {
      const mine = reshardings.flatMap((each, index) => (each.saved === saved ? [index] : []));
      expect(mine).toHaveLength(sizes.length ** 2 * strategyNames.length);
      for (const index of mine) {
        const found = largestDifference(losses[index] ?? [], alone);
        expect(found, JSON.stringify(reshardings[index])).toBeLessThan(1e-5);
      }
    },
  );
});
