import { abortThreadsWorld, createThreadsWorld } from '@shardwise/collectives';
import {
  groupCasesSuite,
  processGroupSuite,
  randomCallsSuite,
  type ProcessGroupContract,
} from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { afterAll, describe } from 'vitest';
import { ThreadPool } from '../../../test/support/thread-pool.ts';
import { hasWideArenas, usedBytes, wideArenaBytes } from './contract-arenas.ts';
import { operationCases } from './operation-cases.ts';

const pool = new ThreadPool();
afterAll(() => pool.end());

const rankUrl = new URL('./threads-rank.ts', import.meta.url);

function runOnThreads(name: string, arenaBytes = usedBytes): ProcessGroupContract['run'] {
  return (size, scenario) => {
    const world = createThreadsWorld({ size, arenaBytes });
    return pool.run(size, rankUrl, {
      name,
      world,
      data: scenario,
      onFailure: (rank, error) => abortThreadsWorld(world, { rank, reason: error }),
    });
  };
}

testSuite(processGroupSuite({ name: 'worker threads', run: runOnThreads('main') }));
testSuite(
  groupCasesSuite(
    { name: 'operations on worker threads', run: runOnThreads('main'), sizes: [3, 4] },
    operationCases,
  ),
);

testSuite(
  randomCallsSuite({
    name: 'worker threads, all buffers in the shared memory',
    run: runOnThreads('inSharedMemory'),
    sizes: [1, 2, 3],
    randomCalls: 80,
  }),
);

testSuite(
  randomCallsSuite({
    name: 'worker threads, buffers here and there',
    run: runOnThreads('inBothMemories'),
    sizes: [2, 4],
    randomCalls: 40,
    seed: 2,
  }),
);

describe.runIf(hasWideArenas(2))('with addresses of 64 bits', () => {
  testSuite(
    randomCallsSuite({
      name: 'worker threads, all buffers beyond 4 GiB',
      run: runOnThreads('inSharedMemory', wideArenaBytes),
      sizes: [2],
      randomCalls: 60,
      seed: 3,
    }),
  );
});
