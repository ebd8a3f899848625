import { expect, it } from 'vitest';
import { trainOnLongSequence } from '../bench/context-parallel/long-sequence.ts';

const steps = 10;
const settings = {
  length: 32_768,
  layers: 2,
  width: 128,
  heads: 4,
  vocabulary: 512,
  tile: 1024,
};

it('two ranks learn one sequence of 32,768 tokens: the loss falls in every step', async () => {
  const found = await trainOnLongSequence(2, steps, settings);
  // The output is recorded in bench/README.md.
  console.log(JSON.stringify(found));
  const losses = found.map(({ loss }) => loss);
  expect(losses).toHaveLength(steps);
  expect(losses).toEqual(losses.toSorted((a, b) => b - a));
  expect(losses.at(-1)).toBeLessThan(losses[0] ?? Number.NaN);
}, 7_200_000);
