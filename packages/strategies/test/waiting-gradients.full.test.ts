import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { observations, strategies } from './ranks/waiting-gradients.ts';

const size = 2;
const moduleUrl = new URL('./ranks/waiting-gradients.ts', import.meta.url);

let ranks: readonly z.infer<typeof observations>[] = [];

beforeAll(async () => {
  const found = await spawnRanks(size, moduleUrl, {
    world: createThreadsWorld({ size, arenaBytes: 4 * 1024 * 1024 }),
  });
  ranks = z.array(observations).length(size).parse(found);
});

describe.each(Object.keys(strategies))('gradients that wait for their reduction: %s', (name) => {
  it('are not left out of a step: it is refused while no pass outside of noSync has averaged them', () => {
    for (const rank of ranks) {
      expect(rank[name]?.onlyInside?.code).toBe('TENSOR_STATE');
      expect(rank[name]?.onlyInside?.message).toMatch(
        /1 of 2 parameters have gradients of this rank alone.*: left\.weight\. Call the last backward\(\) of a step outside of noSync/,
      );
      expect(rank[name]?.thenOutside).toBeNull();
    }
  });

  it('can have no other gradient put in their place, as by clipping', () => {
    for (const rank of ranks) {
      expect(rank[name]?.clipped?.message).toMatch(
        /wait to be added to it\. Clip and unscale gradients after the last backward\(\)/,
      );
    }
  });

  it('add to gradients that were clipped before', () => {
    for (const rank of ranks) {
      expect(rank[name]?.clippedThenAdded).toHaveLength(4);
      rank[name]?.clippedThenAdded.forEach((value, index) => {
        expect(value).toBeCloseTo(rank[name]?.factors[index] ?? NaN, 2);
      });
    }
  });

  it('are averaged with the next pass outside of noSync, also of parameters that it does not use', () => {
    for (const rank of ranks) {
      expect(rank[name]?.together).toHaveLength(3);
      expect(rank[name]?.waited).toEqual(rank[name]?.together);
    }
  });
});
