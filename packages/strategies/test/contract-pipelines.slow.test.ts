import { strategySuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { onThreads } from './contract-ranks.ts';
import { compositionCases, scheduleCases } from './ranks/three-dimension-cases.ts';

testSuite(
  strategySuite({ name: 'every schedule', cases: scheduleCases, sizes: [2], run: onThreads }),
);
testSuite(
  strategySuite({
    name: 'every composition of stages',
    cases: compositionCases,
    sizes: [4, 8],
    run: onThreads,
  }),
);
