import { expect, test } from 'vitest';
import { differencesOf, threadOutcomes } from './random-programs.ts';

const timeoutMs = 300_000;

test.each<[ranks: number, from: number, count: number]>([
  [2, 26, 40],
  [4, 201, 10],
])(
  'programs of %i ranks have the values of those that read all (seeds from %i on, %i of them)',
  async (ranks, from, count) => {
    const outcomes = await threadOutcomes(ranks, { from, count, device: 'interpreter' });
    expect(differencesOf(outcomes)).toEqual([]);
  },
  timeoutMs,
);
