import { strategySuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { onThreads } from './contract-ranks.ts';
import { casesOfFour, casesOfTwo, strategyCases } from './ranks/contract-cases.ts';

const cases = { ...casesOfFour.also, ...casesOfFour.others };
testSuite(strategySuite({ name: 'every other strategy', cases, sizes: [4], run: onThreads }));
testSuite(
  strategySuite({ name: 'every strategy', cases: strategyCases, sizes: [1], run: onThreads }),
);
testSuite(
  strategySuite({ name: 'every strategy', cases: casesOfTwo.slow, sizes: [2], run: onThreads }),
);
