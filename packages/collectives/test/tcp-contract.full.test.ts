import { createGroup } from '@shardwise/collectives';
import { MemoryStore, startStoreServer, tcpTransport } from '@shardwise/collectives/node';
import {
  groupCasesSuite,
  processGroupSuite,
  randomCallsSuite,
  type ProcessGroupScenario,
  type RankOutcome,
} from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { afterAll } from 'vitest';
import { playScenario } from './play-scenario.ts';
import { operationCases } from './operation-cases.ts';
import { ProcessPool } from './process-pool.ts';

const secret = 'open sesame';
const pool = new ProcessPool();
afterAll(() => pool.end());
const rankUrl = new URL('./tcp-rank.ts', import.meta.url);

function runInProcess(encrypt: boolean) {
  return async (size: number, scenario: ProcessGroupScenario): Promise<readonly RankOutcome[]> => {
    const store = new MemoryStore();
    const transports = await Promise.all(
      Array.from({ length: size }, (_, rank) =>
        tcpTransport({ store, rank, size, secret, encrypt }),
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
      const server = await startStoreServer({ secret });
      const world = { port: server.port, secret };
      try {
        return await pool.run(size, rankUrl, { name: 'main', world, data: scenario });
      } finally {
        server.close();
      }
    },
  }),
);
