import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Speculation } from '../src/speculation/speculation.ts';
import { changedModel, useCpu } from './models.ts';
import { RandomArrivals } from './random-arrivals.ts';

const hundreds = Array.from({ length: 10 }, (_, index) => index);
beforeAll(useCpu);

describe.each(['gpt2', 'llama'] as const)(
  'Of 1,000 random arrivals at %s, some of which are swapped,',
  (family) => {
    let arrivals: RandomArrivals;
    beforeAll(async () => {
      // A rank that has compiled nothing yet.
      await useCpu();
      const options = {
        maxChunkTokens: 48,
        cacheTokens: 1280,
        preemption: 'swap',
        // Room for some blocks of 8 tokens, whose keys and values are those of two layers. Others are computed again.
        swapSpace: 30 * 8 * 2 * 2 * 4 * (family === 'gpt2' ? 48 : 32),
      } as const;
      arrivals = new RandomArrivals(family, options, { prompt: 40, generated: 120 });
    });
    afterAll(() => arrivals.dispose());

    test.each(hundreds)(
      'hundred %i gets the log-probabilities of training, bit for bit.',
      async (hundred) => {
        const programs = await arrivals.expectAgreement(100);
        // Two for each form of a step, and those that copy blocks out and back.
        expect(programs).toBeLessThanOrEqual(hundred === 0 ? 8 : 0);
        expect(arrivals.engine.statistics.preemptions).toBeGreaterThan(0);
        expect(arrivals.engine.statistics.prefixTokens).toBeGreaterThan(0);
      },
    );

    test('more than 24 are in a step at once.', () => {
      expect(arrivals.mostRunning).toBeGreaterThan(24);
    });
  },
);

const draft = async (family: 'gpt2' | 'llama' | 'wide'): Promise<Speculation> => {
  return { method: 'draft', model: await changedModel(family), tokens: 3 };
};
const ngram = async (): Promise<Speculation> => {
  return { method: 'ngram', tokens: 3, promptLookupMin: 1 };
};

describe.each([
  ['a draft model proposes', draft],
  ['n-grams propose', ngram],
] as const)('With tokens that %s,', (_, speculationOf) => {
  test.each(['gpt2', 'llama', 'wide'] as const)(
    '200 random arrivals at %s get them, too.',
    async (family) => {
      const arrivals = new RandomArrivals(family, { speculation: await speculationOf(family) });
      await arrivals.expectAgreement(100);
      // Two sizes may have been related by chance in the examples.
      expect(await arrivals.expectAgreement(100)).toBeLessThanOrEqual(1);
      await arrivals.dispose();
    },
  );
});
