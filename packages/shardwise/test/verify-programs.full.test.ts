import { expect, it } from 'vitest';
import { expectNothingFound, seedsFrom } from './verify-programs.ts';

it.each([
  [2, 12, 24],
  [4, 60, 70],
])(
  'on %d ranks, finds nothing in the right programs from %d to %d',
  async (ranks, first, end) => {
    await expectNothingFound(ranks, seedsFrom(first, end));
    expect.hasAssertions();
  },
  600_000,
);
