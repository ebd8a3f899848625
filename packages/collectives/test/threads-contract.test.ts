import { abortThreadsWorld, createThreadsWorld } from '@shardwise/collectives';
import {
  processGroupContract,
  processGroupRandomCalls,
  settleRanks,
  type ProcessGroupContract,
} from '@shardwise/testing';

const rankUrl = new URL('./threads-rank.ts', import.meta.url);

function runOnThreads(name: string): ProcessGroupContract['run'] {
  return (size, scenario) => {
    const world = createThreadsWorld({ size, arenaBytes: 64 << 20 });
    return settleRanks(size, rankUrl, {
      name,
      world,
      data: scenario,
      onFailure: (rank, error) => abortThreadsWorld(world, { rank, reason: error }),
    });
  };
}

processGroupContract({ name: 'worker threads', run: runOnThreads('main') });

processGroupRandomCalls({
  name: 'worker threads, all buffers in the shared memory',
  run: runOnThreads('inSharedMemory'),
  sizes: [1, 2, 3],
  randomCalls: 150,
});

processGroupRandomCalls({
  name: 'worker threads, buffers here and there',
  run: runOnThreads('inBothMemories'),
  sizes: [2, 4],
  randomCalls: 150,
  seed: 2,
});
