import { expect, test } from 'vitest';
import { differencesOf, threadOutcomes } from './random-programs.ts';

const timeoutMs = 300_000;

test.each<[ranks: number, from: number, count: number, device: 'cpu' | 'interpreter']>([
  [2, 26, 40, 'interpreter'],
  [4, 201, 10, 'interpreter'],
])(
  'programs of %i ranks have the values of those that read all (seeds from %i on, %i of them, on %s)',
  async (ranks, from, count, device) => {
    const outcomes = await threadOutcomes(ranks, { from, count, device });
    expect(differencesOf(outcomes)).toEqual([]);
  },
  timeoutMs,
);
