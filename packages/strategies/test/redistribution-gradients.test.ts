import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

const outcomes = z.array(
  z.object({
    name: z.string(),
    valueError: z.number(),
    analytic: z.number(),
    numeric: z.number(),
  }),
);

/** A [5, 3] matrix, whose parts are uneven, between all layouts that a mesh has. */
describe.each([
  [2, 16],
  [3, 16],
  [4, 100],
])('redistributions on %i ranks', (size, leastCases) => {
  it('keep the values, and have the derivatives of the whole as gradients', async () => {
    const world = createThreadsWorld({ size });
    const results = await spawnRanks(
      size,
      new URL('./ranks/redistribution-gradients.ts', import.meta.url),
      { world, timeoutMs: 300_000 },
    );
    expect(results).toHaveLength(size);
    for (const rank of z.array(outcomes).parse(results)) {
      expect(rank.length).toBeGreaterThanOrEqual(leastCases);
      for (const { name, valueError, analytic, numeric } of rank) {
        expect(valueError, name).toBeLessThan(1e-6);
        const error = Math.abs(analytic - numeric) / Math.max(1, Math.abs(numeric));
        expect(error, `${name}: ${analytic} and ${numeric}`).toBeLessThan(2e-3);
      }
    }
  }, 320_000);
});
