import { expect, it } from 'vitest';
import { expectNothingFound, seedsFrom } from './verify-programs.ts';

it.each([
  [2, [2, 3, 4, 7, 8, 9, ...seedsFrom(24, 60)]],
  [4, seedsFrom(70, 100)],
])(
  'on %d ranks, finds nothing in the right programs of the other seeds',
  async (ranks, seeds) => {
    await expectNothingFound(ranks, seeds);
    expect.hasAssertions();
  },
  900_000,
);
