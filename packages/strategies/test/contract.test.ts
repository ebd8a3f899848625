import { strategySuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { inThisThread } from './contract-ranks.ts';
import { casesOfTwo } from './ranks/contract-cases.ts';

const name = 'each kind of strategy';
const cases = casesOfTwo.quick;
testSuite(strategySuite({ name, cases, sizes: [2], run: inThisThread(cases) }));
