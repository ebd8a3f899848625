import { strategySuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { runRanks } from './contract-ranks.ts';
import { strategyCases } from './ranks/contract-cases.ts';

testSuite(strategySuite({ name: 'every strategy', cases: strategyCases, run: runRanks }));
