import { abortThreadsWorld, createThreadsWorld } from '@shardwise/collectives';
import { processGroupContract, settleRanks } from '@shardwise/testing';

processGroupContract({
  name: 'worker threads',
  run: (size, scenario) => {
    const world = createThreadsWorld({ size, arenaBytes: 1 << 20 });
    return settleRanks(size, new URL('./threads-rank.ts', import.meta.url), {
      world,
      data: scenario,
      onFailure: (rank, error) => abortThreadsWorld(world, { rank, reason: error }),
    });
  },
});
