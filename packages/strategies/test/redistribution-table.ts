import type { MeshAxis } from '@shardwise/core';
import { createThreadsWorld } from '@shardwise/collectives';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { testMs, trainingMs } from './time-limits.ts';

const outcomes = z.array(
  z.object({
    name: z.string(),
    valueError: z.number(),
    analytic: z.number(),
    numeric: z.number(),
  }),
);

const line = (size: number): readonly MeshAxis[] => [{ name: 'a', size }];
const square: readonly MeshAxis[] = [
  { name: 'a', size: 2 },
  { name: 'b', size: 2 },
];

/** The shape of a matrix, a mesh, and the least number of redistributions between layouts that it has. */
type MatrixOnMesh = readonly [
  shape: readonly number[],
  axes: readonly MeshAxis[],
  leastCases: number,
];

/** Matrices whose parts are uneven. Some ranks have empty parts. */
export const onLines: readonly MatrixOnMesh[] = [
  [[5, 3], line(2), 16],
  // The rows are split into 2, 2 and 1, then into 2, 2 and none, and into 2, 2, 2 and none.
  [[5, 3], line(3), 16],
  [[4, 2], line(3), 16],
  [[6, 3], line(4), 16],
];
export const onSquare: readonly MatrixOnMesh[] = [[[5, 3], square, 100]];

/** Tests redistributions between all layouts on a mesh. */
export function testRedistributions(cases: readonly MatrixOnMesh[]): void {
  describe.each(cases)('redistributions of a %j matrix on %j', (shape, axes, leastCases) => {
    const size = axes.reduce((product, axis) => product * axis.size, 1);

    it(
      'keep the values, and have the derivatives of the whole as gradients',
      async () => {
        const world = createThreadsWorld({ size });
        const results = await runRanks(
          size,
          new URL('./ranks/redistribution-gradients.ts', import.meta.url),
          { world, data: { shape, axes }, timeoutMs: trainingMs },
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
      },
      testMs,
    );
  });
}
