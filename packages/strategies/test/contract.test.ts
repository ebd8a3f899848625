import { strategySuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { runRanks } from './contract-ranks.ts';
import { strategyCases } from './ranks/contract-cases.ts';

const quick = [
  'DDP',
  'DataParallel',
  'ZeRO-1',
  'FSDP',
  'tensor parallelism of a GPT',
  'a pipeline by 1F1B',
];
const cases = Object.fromEntries(
  Object.entries(strategyCases).filter(([name]) => quick.includes(name)),
);

testSuite(strategySuite({ name: 'each kind of strategy', cases, sizes: [2], run: runRanks }));
