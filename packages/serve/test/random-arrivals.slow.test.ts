import { beforeAll, test } from 'vitest';
import { useCpu } from './models.ts';
import { expectAgreement } from './random-arrivals.ts';

beforeAll(useCpu);

test.each(['gpt2', 'llama'] as const)(
  '1,000 random arrivals at %s get the log-probabilities of training, bit for bit',
  (family) => expectAgreement(family, 1000),
);
