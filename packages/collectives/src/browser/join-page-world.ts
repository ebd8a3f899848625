import type { ProcessGroup } from '@shardwise/core/spec';
import type { PageRank } from './page-world.ts';

/** The group of all ranks of a page's world. Each rank's worker calls it once; it loads what this world communicates by. */
export async function joinPageWorld(pageRank: PageRank): Promise<ProcessGroup> {
  const { rank, world } = pageRank;
  if (world === undefined) {
    const { joinPorts } = await import('./join-ports.ts');
    return joinPorts(pageRank);
  }
  const { joinThreadsWorld } = await import('../threads/join-threads-world.ts');
  return joinThreadsWorld(world, rank);
}
