import type { ProcessGroup } from '@shardwise/core/spec';
import type { PageRank } from './page-world.ts';

/**
 * The group of all ranks of a page's world. The worker of each rank calls it once. It loads the code of the
 * transport that this world uses.
 */
export async function joinPageWorld(pageRank: PageRank): Promise<ProcessGroup> {
  const { rank, world } = pageRank;
  if (world === undefined) {
    const { joinPorts } = await import('./join-ports.ts');
    return joinPorts(pageRank);
  }
  const { joinThreadsWorld } = await import('../threads/join-threads-world.ts');
  return joinThreadsWorld(world, rank);
}
