import { dist } from 'shardwise';
import { spawnRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { learned, likely, prefixLength, vocabularySize } from './ranks/learn-language.ts';

const ranks = 2;
const steps = 300;
/** The mean of this number of last steps is compared. Every step sees new data. */
const lastSteps = 50;

const guess = Math.log(vocabularySize);

/** The smallest loss that any model of the language can reach, in nats per token. */
const optimum = {
  markov: -likely * Math.log(likely) - (1 - likely) * Math.log(1 - likely),
  // The rest of the prefix can only be guessed, and the whole copy is certain.
  copy: ((prefixLength - 1) / (2 * prefixLength - 1)) * guess,
};

describe('the GPT of the example, trained on two ranks, learns', () => {
  it.each([
    ['a Markov chain down to its entropy', 'markov'],
    ['to copy, down to the entropy of what is copied', 'copy'],
  ] as const)('%s', async (_, language) => {
    const world = dist.transports.createThreadsWorld({ size: ranks, arenaBytes: 64 * 1024 * 1024 });
    const url = new URL('./ranks/learn-language.ts', import.meta.url);
    const results = z
      .array(learned)
      .length(ranks)
      .parse(await spawnRanks(ranks, url, { world, data: { language, steps } }));
    const first = mean(results.map(({ losses }) => losses[0] ?? Number.NaN));
    const last = mean(results.flatMap(({ losses }) => losses.slice(-lastSteps)));
    expect(first).toBeGreaterThan(0.9 * guess);
    expect(Math.abs(last - optimum[language]) / optimum[language]).toBeLessThan(0.02);
  });
});

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
