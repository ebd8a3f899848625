import { cpu } from '@shardwise/backend-cpu';
import { setRank } from '@shardwise/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { layoutNames, trainAlone, halfOn, runHalf } from './layout-resharding.ts';
import { largestDifference, secondHalves } from './resharding.ts';

const pairs = layoutNames.flatMap((saved) => layoutNames.map((loaded) => ({ saved, loaded })));

describe('a training that is saved in any layout', () => {
  let alone: readonly number[] = [];
  let losses: readonly (readonly number[])[] = [];

  beforeAll(async () => {
    setRank({ device: await cpu() });
    alone = await trainAlone();
    ({ losses } = await secondHalves(
      runHalf,
      pairs.map(({ saved, loaded }) => ({ saved: halfOn(saved), loaded: halfOn(loaded) })),
    ));
  }, 3_600_000);

  it.each(layoutNames)('goes on in every other as one rank does: %s', (layout) => {
    const mine = pairs.flatMap(({ saved }, index) => (saved === layout ? [index] : []));
    expect(mine).toHaveLength(layoutNames.length);
    for (const index of mine) {
      const found = largestDifference(losses[index] ?? [], alone);
      expect(found, JSON.stringify(pairs[index])).toBeLessThan(1e-5);
    }
  });
});
