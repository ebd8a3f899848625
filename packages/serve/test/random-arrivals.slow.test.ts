import { beforeAll, test } from 'vitest';
import { changedModel, useCpu } from './models.ts';
import { expectAgreement } from './random-arrivals.ts';

beforeAll(useCpu);

test.each(['gpt2', 'llama', 'wide'] as const)(
  '1,000 random arrivals at %s get the log-probabilities of training, bit for bit',
  (family) => expectAgreement(family, 1000),
);

test.each(['gpt2', 'llama', 'wide'] as const)(
  '120 do so at %s with tokens that n-grams propose, and get the texts that there are without these',
  (family) => expectAgreement(family, 120, { method: 'ngram', tokens: 3, promptLookupMin: 1 }),
);

test.each(['gpt2', 'llama', 'wide'] as const)(
  '120 do so at %s with tokens that a draft model proposes, and get the texts that there are without these',
  async (family) =>
    expectAgreement(family, 120, {
      method: 'draft',
      model: await changedModel(family),
      tokens: 3,
    }),
);
