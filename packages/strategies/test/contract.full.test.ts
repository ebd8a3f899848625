import { strategySuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { inThisThread } from './contract-ranks.ts';
import { casesOfFour, casesOfTwo } from './ranks/contract-cases.ts';

// The quick test has the other cases of two ranks. The slow test has all of one and of four, whose ranks are threads.
const name = 'every strategy';
testSuite(strategySuite({ name, cases: casesOfTwo.full, sizes: [2], run: inThisThread }));
testSuite(strategySuite({ name, cases: casesOfFour.some, sizes: [4], run: inThisThread }));
