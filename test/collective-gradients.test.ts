import { createThreadsWorld } from '@shardwise/collectives';
import { describe, expect, it } from 'vitest';
import { runRanks } from './support/run-ranks.ts';
import { cases, type Outcome } from './ranks/collective-gradients.ts';

/** Compares every collective in the gradient table with finite differences of the global loss. */
describe.each([1, 2, 3, 4])('the gradients of collectives on %i ranks', (size) => {
  it(`are the derivatives of the global loss (${Object.keys(cases).length} cases)`, async () => {
    const world = createThreadsWorld({ size });
    const results = (await runRanks(
      size,
      new URL('./ranks/collective-gradients.ts', import.meta.url),
      { world },
    )) as readonly (readonly Outcome[])[];
    expect(results).toHaveLength(size);
    for (const { name, analytic, numeric } of results.flat()) {
      expect(
        Math.abs(analytic - numeric) / Math.max(1, Math.abs(numeric)),
        `${name}: ${analytic} and ${numeric}`,
      ).toBeLessThan(2e-3);
    }
  });
});
