import { strategySuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { runRanks } from './contract-ranks.ts';
import { casesOfFour, strategyCases } from './ranks/contract-cases.ts';

// The slow test has all cases of four ranks.
const name = 'every strategy';
testSuite(strategySuite({ name, cases: strategyCases, sizes: [2], run: runRanks }));
testSuite(strategySuite({ name, cases: casesOfFour.some, sizes: [4], run: runRanks }));
