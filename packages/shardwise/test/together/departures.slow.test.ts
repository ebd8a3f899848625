import { it } from 'vitest';
import { expectUndisturbed } from './departures.ts';

const seeds = Array.from({ length: 30 }, (_, seed) => seed + 10);

it.each(seeds)(
  'states are equal after 200 random departures and arrivals, with seed %d',
  async (seed) => {
    await expectUndisturbed(seed);
  },
);
