import { beforeAll, expect, test } from 'vitest';
import type { Speculation } from '../src/speculation/speculation.ts';
import { changedModel, useCpu } from './models.ts';
import { RandomArrivals } from './random-arrivals.ts';

// A part of what random-arrivals.slow.test.ts does.

const COUNT = 48;
beforeAll(useCpu);

test.each(['gpt2', 'llama', 'wide'] as const)(
  'Random arrivals at %s get the log-probabilities of training, bit for bit.',
  async (family) => {
    const arrivals = new RandomArrivals(family);
    // Two for each form of a step.
    expect(await arrivals.expectAgreement(COUNT)).toBeLessThanOrEqual(6);
    const { preemptions, prefixTokens } = arrivals.engine.statistics;
    expect(preemptions).toBeGreaterThan(0);
    expect(prefixTokens).toBeGreaterThan(0);
    await arrivals.dispose();
  },
);

const draft = async (): Promise<Speculation> => {
  return { method: 'draft', model: await changedModel('llama'), tokens: 3 };
};
const ngram = async (): Promise<Speculation> => {
  return { method: 'ngram', tokens: 3, promptLookupMin: 1 };
};

test.each([
  ['n-grams propose', ngram],
  ['a draft model proposes', draft],
] as const)(
  'They do so with tokens that %s, and get the texts that there are without these.',
  async (_, speculation) => {
    const arrivals = new RandomArrivals('llama', { speculation: await speculation() });
    await arrivals.expectAgreement(COUNT);
    const { acceptedTokens, proposedTokens } = arrivals.engine.statistics;
    expect(acceptedTokens).toBeGreaterThan(0);
    expect(proposedTokens).toBeGreaterThan(acceptedTokens);
    await arrivals.dispose();
  },
);
