import {
  abortShmWorld,
  closeShmWorld,
  createShmWorld,
  shmAvailability,
} from '@shardwise/collectives/node';
import {
  groupCasesSuite,
  processGroupSuite,
  randomCallsSuite,
  type ProcessGroupContract,
} from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { afterAll, describe } from 'vitest';
import { hasWideArenas, usedBytes, wideArenaBytes } from './contract-arenas.ts';
import { operationCases } from './operation-cases.ts';
import { ProcessPool } from './process-pool.ts';

const rankUrl = new URL('./shm-rank.ts', import.meta.url);
const pool = new ProcessPool();

function runOnProcesses(name: string, arenaBytes = usedBytes): ProcessGroupContract['run'] {
  return async (size, scenario) => {
    const world = createShmWorld({ size, arenaBytes });
    try {
      return await pool.run(size, rankUrl, {
        name,
        world,
        data: scenario,
        onFailure: (rank, error) => abortShmWorld(world, { rank, reason: error }),
      });
    } finally {
      closeShmWorld(world);
    }
  };
}

const availability = shmAvailability();
const title = availability.available ? 'shared memory' : `not here: ${availability.reason}`;

describe.skipIf(!availability.available)(title, () => {
  afterAll(() => pool.end());

  testSuite(processGroupSuite({ name: 'processes', run: runOnProcesses('main') }));
  testSuite(
    groupCasesSuite(
      { name: 'operations of processes', run: runOnProcesses('main'), sizes: [3] },
      operationCases,
    ),
  );

  testSuite(
    randomCallsSuite({
      name: 'processes, all buffers in the shared memory',
      run: runOnProcesses('inSharedMemory'),
      sizes: [1, 2, 3],
      randomCalls: 80,
    }),
  );

  describe.runIf(hasWideArenas(2))('with addresses of 64 bits', () => {
    testSuite(
      randomCallsSuite({
        name: 'processes, all buffers beyond 4 GiB',
        run: runOnProcesses('inSharedMemory', wideArenaBytes),
        sizes: [2],
        randomCalls: 60,
        seed: 3,
      }),
    );
  });
});
