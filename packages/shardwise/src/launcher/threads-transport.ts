import { abortThreadsWorld, createThreadsWorld } from '@shardwise/collectives';
import type { RankTransport } from './rank-transport.ts';

/** Ranks are threads of one process and share its memory. */
export function threadsTransport(worldSize: number): RankTransport {
  const world = createThreadsWorld({ size: worldSize });
  return {
    world,
    abort: (rank, reason) => abortThreadsWorld(world, { rank, reason }),
  };
}
