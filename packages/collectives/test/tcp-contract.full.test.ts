import { createGroup } from '@shardwise/collectives';
import { MemoryStore, tcpTransport } from '@shardwise/collectives/node';
import {
  groupCasesSuite,
  processGroupSuite,
  randomCallsSuite,
  type ProcessGroupScenario,
  type RankOutcome,
} from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { playScenario } from './play-scenario.ts';
import { operationCases } from './operation-cases.ts';
import { startTcpJob } from './tcp-job.ts';

function runInProcess(encrypt: boolean) {
  return async (size: number, scenario: ProcessGroupScenario): Promise<readonly RankOutcome[]> => {
    const store = new MemoryStore();
    const transports = await Promise.all(
      Array.from({ length: size }, (_, rank) =>
        tcpTransport({ store, rank, size, secret: 'open sesame', encrypt }),
      ),
    );
    return Promise.all(
      transports.map((transport) => playScenario(createGroup(transport), scenario)),
    );
  };
}

testSuite(
  processGroupSuite({
    name: 'tcp on loopback sockets',
    run: runInProcess(false),
    sizes: [1, 2, 3, 5],
  }),
);
testSuite(
  groupCasesSuite(
    { name: 'operations on tcp', run: runInProcess(false), sizes: [2, 4] },
    operationCases,
  ),
);
testSuite(randomCallsSuite({ name: 'encrypted tcp', run: runInProcess(true), sizes: [3] }));

testSuite(
  processGroupSuite({
    name: 'tcp between processes',
    sizes: [2],
    run: async (size, scenario) => {
      await using job = await startTcpJob(size, { mode: 'scenario', scenario });
      return await Promise.all(job.ranks.map(({ outcome }) => outcome));
    },
  }),
);
