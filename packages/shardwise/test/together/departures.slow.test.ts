import { it } from 'vitest';
import { expectUndisturbed } from './departures.ts';

const seeds = Array.from({ length: 30 }, (_, seed) => seed + 10);

it.each(seeds)(
  'states are equal after 200 random departures and arrivals, with seed %d',
  async (seed) => {
    await expectUndisturbed(seed);
  },
);

it.each([1, 2, 3, 4, 5, 6, 7, 8])(
  'states are equal if members send updates to each other directly, with seed %d',
  async (seed) => {
    await expectUndisturbed(seed, { areDirect: true });
  },
);

it.each([1, 2, 3, 4, 5, 6, 7, 8])(
  'states are equal if messages overlap updates, with seed %d',
  async (seed) => {
    await expectUndisturbed(seed, { overlap: true, areDirect: seed % 2 === 0 });
  },
);
