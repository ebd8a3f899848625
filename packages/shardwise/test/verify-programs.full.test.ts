import { expect, it } from 'vitest';
import { expectNothingFound, seedsFrom } from './verify-programs.ts';

const groups: readonly (readonly [ranks: number, seeds: readonly number[]])[] = [
  [2, seedsFrom(12, 15)],
  // The last one accumulates two passes of a pipeline that averages gradients over the ranks of experts.
  [4, [...seedsFrom(60, 62), 363]],
];

it.each(groups)(
  'on %d ranks, finds nothing in the right programs of the seeds %j',
  async (ranks, seeds) => {
    await expectNothingFound(ranks, seeds);
    expect.hasAssertions();
  },
  600_000,
);
