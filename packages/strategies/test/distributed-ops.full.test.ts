import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
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

describe.each([2, 4])('ops on inputs in random layouts on %i ranks', (size) => {
  it(
    'give the values and gradients of the op on whole tensors, or refuse the layouts',
    async () => {
      const world = createThreadsWorld({ size });
      const results = await spawnRanks(
        size,
        new URL('./ranks/distributed-ops.ts', import.meta.url),
        {
          world,
          timeoutMs: trainingMs,
        },
      );
      expect(results).toHaveLength(size);
      for (const rank of z.array(outcomes).parse(results)) {
        const accepted = rank.filter(({ refused }) => !refused);
        expect(accepted.length).toBeGreaterThan(rank.length * 0.75);
        for (const { name, valueError, gradientError } of accepted) {
          expect(valueError, name).toBeLessThan(1e-5);
          expect(gradientError, `gradients of ${name}`).toBeLessThan(1e-5);
        }
      }
    },
    testMs,
  );
});
