import { createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { cases, ended, type Ended } from './ranks/uneven-inputs.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 3;
let ranks: readonly Record<string, Ended>[] = [];

beforeAll(async () => {
  const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
  const found = await runRanks(size, new URL('./ranks/uneven-inputs.ts', import.meta.url), {
    world,
    timeoutMs: trainingMs,
  });
  ranks = z.array(z.record(z.string(), ended)).length(size).parse(found);
}, testMs);

describe('ranks with different numbers of batches', () => {
  // A batch of rank r has the gradient r + 1. The learning rate is 1.
  it.each([
    ['later ranks have more', [1, 2, 3], (1 + 2 + 3 + 2 + 3 + 3) / 3],
    ['rank 0 has more', [3, 2, 1], (1 + 2 + 3 + 1 + 2 + 1) / 3],
    ['all have as many', [2, 2, 2], 2 * 2],
    ['one rank has none', [3, 0, 3], (3 * (1 + 3)) / 3],
    ['divided by those that take part', [1, 2, 3], 2 + 2.5 + 3],
    ['with a ZeroRedundancyOptimizer', [1, 2, 3], (1 + 2 + 3 + 2 + 3 + 3) / 3],
  ] as const)('end with one model: %s', (name, steps, distance) => {
    expect(ranks.map((rank) => rank[name]?.steps)).toEqual(steps);
    for (const rank of ranks) {
      expect(rank[name]?.error).toBeNull();
      // All ranks then make one more step, whose gradient is 2.
      const [first = NaN, ...others] = rank[name]?.weight ?? [];
      expect(first).toBeCloseTo(-distance - 2, 5);
      expect(others).toHaveLength(2);
      for (const value of others) expect(value / 10).toBeCloseTo(-distance - 2, 5);
      expect(rank[name]?.weight).toEqual(ranks[0]?.[name]?.weight);
    }
  });

  it.each([
    ['evaluating between forward and backward', 'no backward pass before the next forward pass'],
    ['with two backward passes for one forward pass', 'a second backward pass'],
  ])('are refused %s, which the others would not know of', (name, found) => {
    for (const rank of ranks) {
      expect(rank[name]?.error?.code).toBe('TENSOR_STATE');
      expect(rank[name]?.error?.message).toContain(
        `one backward pass for each forward pass inside join: ${found}`,
      );
    }
  });

  it('share the buffers of a rank that has batches', () => {
    for (const [name, { options, pass }] of Object.entries(cases)) {
      const most = Math.max(...ranks.map((rank) => rank[name]?.steps ?? NaN));
      if (options?.throwOnEarlyTermination === true || pass !== undefined) continue;
      for (const rank of ranks) expect(rank[name]?.seen, name).toBe(most + 1);
    }
  });

  it('stop with an error on all of them when the first has run out, where that is asked for', () => {
    const all = ranks.map((rank) => rank['stopping with the first']);
    // The other ranks finish the step that was under way when rank 0 ended.
    expect(all.map((each) => each?.steps)).toEqual([2, 3, 3]);
    for (const each of all) {
      expect(each?.error?.code).toBe('DATA');
      expect(each?.error?.message).toContain('the same number of batches on each of 3 ranks');
    }
  });
});
