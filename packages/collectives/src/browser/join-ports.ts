import type { ProcessGroup } from '@shardwise/core/spec';
import { groupOver } from '../group/create-group.ts';
import type { PageRank } from './page-world.ts';
import { portTransport } from './port-transport.ts';

/** The group of ranks that share no memory. */
export function joinPorts({ rank, size, ports }: PageRank): ProcessGroup {
  return groupOver(portTransport({ rank, size, ports }), {});
}
