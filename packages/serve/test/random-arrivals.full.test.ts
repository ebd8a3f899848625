import { beforeAll, test } from 'vitest';
import { useCpu } from './models.ts';
import { expectAgreement } from './random-arrivals.ts';

beforeAll(useCpu);

test.each(['gpt2', 'llama', 'wide'] as const)(
  '120 random arrivals at %s get the log-probabilities of training, bit for bit',
  (family) => expectAgreement(family, 120),
);
