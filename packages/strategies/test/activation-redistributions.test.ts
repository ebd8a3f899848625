import { createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { outcomes, type Outcomes } from './ranks/activation-redistributions.ts';
import { testMs, trainingMs } from './time-limits.ts';

/** The layout of an activation changes. On 2 x 2 ranks, it changes once along each axis. */
describe.each([2, 4])('redistributions of an activation on %i ranks', (size) => {
  let ranks: readonly Outcomes[] = [];

  beforeAll(async () => {
    const found = await runRanks(
      size,
      new URL('./ranks/activation-redistributions.ts', import.meta.url),
      {
        world: createThreadsWorld({ size }),
        timeoutMs: trainingMs,
      },
    );
    ranks = z.array(outcomes.length(16)).length(size).parse(found);
  }, testMs);

  it('have the derivatives of what they compute as gradients', () => {
    for (const { name, analytic, numeric } of ranks.flat()) {
      const error = Math.abs(analytic - numeric) / Math.max(1, Math.abs(numeric));
      expect(error, `${name}: ${analytic} and ${numeric}`).toBeLessThan(2e-3);
    }
  });

  it('run the collectives that their plans name, and no others', () => {
    for (const { name, counted, promised } of ranks.flat()) expect(counted, name).toEqual(promised);
  });
});
