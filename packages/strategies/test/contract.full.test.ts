import { strategySuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { runRanks } from './contract-ranks.ts';
import { casesOfFour, strategyCases } from './ranks/contract-cases.ts';

const name = 'every strategy';
testSuite(strategySuite({ name, cases: strategyCases, sizes: [2], run: runRanks }));
testSuite(strategySuite({ name, cases: casesOfFour.only, sizes: [4], run: runRanks }));
