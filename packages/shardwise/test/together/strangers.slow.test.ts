import { it } from 'vitest';
import { expectUnchanged } from './strangers.ts';

const seeds = Array.from({ length: 20 }, (_, seed) => seed + 10);

// A million in all.
it.each(seeds)(
  '50,000 random and mutated frames of strangers change nothing, with seed %d',
  (seed) => {
    expectUnchanged(seed, 50_000);
  },
);
