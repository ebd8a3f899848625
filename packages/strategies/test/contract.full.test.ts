import { strategySuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { inThisThread } from './contract-ranks.ts';
import { casesOfFour, casesOfTwo } from './ranks/contract-cases.ts';

// The quick test has the other cases of two ranks. The slow test has all models, and all cases of one and of four ranks.
const name = 'every strategy';
const worlds = [
  [2, casesOfTwo.full],
  [4, casesOfFour.some],
] as const;
for (const [size, cases] of worlds)
  testSuite(strategySuite({ name, cases, sizes: [size], run: inThisThread(cases) }));
