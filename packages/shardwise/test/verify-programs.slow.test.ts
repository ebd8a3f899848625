import { expect, it } from 'vitest';
import { expectNothingFound, seedsFrom } from './verify-programs.ts';

const others = seedsFrom(0, 15).map((index) => 100 + 20 * index);

const groups: readonly (readonly [ranks: number, seeds: readonly number[]])[] = [
  [2, [4, 5, 6, 9, 10, 11, ...seedsFrom(15, 36)]],
  [2, seedsFrom(36, 60)],
  [4, seedsFrom(62, 75)],
  [4, seedsFrom(75, 85)],
  [4, seedsFrom(85, 100)],
  ...others.map((first) => [first < 260 ? 2 : 4, seedsFrom(first, first + 20)] as const),
];

it.each(groups)(
  'on %d ranks, finds nothing in the right programs of the seeds %j',
  async (ranks, seeds) => {
    await expectNothingFound(ranks, seeds);
    expect.hasAssertions();
  },
  900_000,
);
