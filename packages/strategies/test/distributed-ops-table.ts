import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { testMs, trainingMs } from './time-limits.ts';

const outcomes = z.array(
  z.object({
    name: z.string(),
    refused: z.boolean(),
    valueError: z.number(),
    gradientError: z.number(),
  }),
);

function namesOf(found: readonly { readonly name: string }[]): ReadonlySet<string | undefined> {
  return new Set(found.map(({ name }) => name.split(':')[0]));
}

/** Adds the tests of distributed ops in a world of this size, with so many random layouts and sizes for each op. */
export function testDistributedOps(size: number, samples: number): void {
  const title =
    'ops on inputs in random layouts give the values and gradients of whole tensors, or refuse the layouts';
  const url = new URL('./ranks/distributed-ops.ts', import.meta.url);

  it(`${title}, on ${size} ranks`, { timeout: testMs }, async () => {
    const world = createThreadsWorld({ size });
    const results = await spawnRanks(size, url, {
      world,
      timeoutMs: trainingMs,
      data: { samples },
    });
    expect(results).toHaveLength(size);
    for (const rank of z.array(outcomes).parse(results)) {
      const accepted = rank.filter(({ refused }) => !refused);
      expect(accepted.length).toBeGreaterThan(rank.length * 0.75);
      if (size <= 2) expect(namesOf(accepted)).toEqual(namesOf(rank));
      for (const { name, valueError, gradientError } of accepted) {
        expect(valueError, name).toBeLessThan(1e-5);
        expect(gradientError, `gradients of ${name}`).toBeLessThan(1e-5);
      }
    }
  });
}
