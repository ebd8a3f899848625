import { abortThreadsWorld, createThreadsWorld } from '@shardwise/collectives';
import {
  processGroupCases,
  processGroupContract,
  processGroupRandomCalls,
  type ProcessGroupContract,
} from '@shardwise/testing';
import { afterAll } from 'vitest';
import { operationCases } from './operation-cases.ts';
import { ThreadPool } from './thread-pool.ts';

const pool = new ThreadPool();
afterAll(() => pool.end());

const rankUrl = new URL('./threads-rank.ts', import.meta.url);

function runOnThreads(name: string): ProcessGroupContract['run'] {
  return (size, scenario) => {
    const world = createThreadsWorld({ size, arenaBytes: 64 << 20 });
    return pool.run(size, rankUrl, {
      name,
      world,
      data: scenario,
      onFailure: (rank, error) => abortThreadsWorld(world, { rank, reason: error }),
    });
  };
}

processGroupContract({ name: 'worker threads', run: runOnThreads('main') });
processGroupCases(
  { name: 'operations on worker threads', run: runOnThreads('main'), sizes: [3, 4] },
  operationCases,
);

processGroupRandomCalls({
  name: 'worker threads, all buffers in the shared memory',
  run: runOnThreads('inSharedMemory'),
  sizes: [1, 2, 3],
  randomCalls: 80,
});

processGroupRandomCalls({
  name: 'worker threads, buffers here and there',
  run: runOnThreads('inBothMemories'),
  sizes: [2, 4],
  randomCalls: 40,
  seed: 2,
});
