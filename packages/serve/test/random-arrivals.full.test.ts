import { beforeAll, test } from 'vitest';
import { changedModel, useCpu } from './models.ts';
import { expectAgreement } from './random-arrivals.ts';

beforeAll(useCpu);

test.each(['gpt2', 'llama', 'wide'] as const)(
  '60 random arrivals at %s get the log-probabilities of training, bit for bit',
  (family) => expectAgreement(family, 60),
);

// The slow test has more of them, and the other families.
test.each(['gpt2'] as const)(
  'They do so at %s with tokens that n-grams propose, and get the texts that there are without these',
  (family) => expectAgreement(family, 50, { method: 'ngram', tokens: 3, promptLookupMin: 1 }),
);

test.each(['llama'] as const)(
  'They do so at %s with tokens that a draft model proposes, and get the texts that there are without these',
  async (family) =>
    expectAgreement(family, 50, { method: 'draft', model: await changedModel(family), tokens: 3 }),
);
