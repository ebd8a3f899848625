import { expect, it } from 'vitest';
import { serverFacts } from '../src/cli/run-servers.ts';

const counted = {
  updates: 3,
  duplicates: 1,
  late: 0,
  receivedBytes: 100,
  earlyBytes: 75,
  sentBytes: 100,
  staleness: { 0: 2, 1: 1 },
  lead: { 0: 3 },
  waitedMs: { 0: 120, 1: 2040 },
  isReplicated: false,
  clock: [],
};

it('the report says what servers have counted, of all workers', () => {
  const other = { ...counted, staleness: { 2: 4 }, lead: { 1: 2, 0: 1 }, waitedMs: { 0: 1500 } };
  expect(serverFacts([counted, undefined, other])).toEqual({
    'parameter servers': 3,
    'updates of a server': 3,
    staleness: '0: 2, 1: 1, 2: 4',
    'steps ahead': '0: 4, 1: 2',
    'waited for others': 'worker 0: 1.5 s, worker 1: 2.0 s',
    'gradients sent in backward': '75 % of 200 bytes',
    'pushes too late': 0,
    'pushes sent twice': 2,
  });
  expect(serverFacts([undefined])).toEqual({});
});
