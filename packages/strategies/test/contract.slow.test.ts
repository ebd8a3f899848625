import { strategySuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { runRanks } from './contract-ranks.ts';
import { casesOfFour, strategyCases } from './ranks/contract-cases.ts';

const name = 'every strategy that two ranks have, too,';
testSuite(strategySuite({ name, cases: casesOfFour.also, sizes: [4], run: runRanks }));
testSuite(
  strategySuite({ name: 'every strategy', cases: strategyCases, sizes: [1], run: runRanks }),
);
