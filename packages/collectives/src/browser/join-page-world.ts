import type { ProcessGroup } from '@shardwise/core/spec';
import { createGroup } from '../group/create-group.ts';
import { joinThreadsWorld } from '../threads/join-threads-world.ts';
import type { PageRank } from './create-page-world.ts';
import { portTransport } from './port-transport.ts';

/** The group of all ranks of a page's world; to be called once on each rank's worker. */
export function joinPageWorld({ rank, size, world, ports }: PageRank): ProcessGroup {
  if (world !== undefined) return joinThreadsWorld(world, rank);
  return createGroup(portTransport({ rank, size, ports }));
}
