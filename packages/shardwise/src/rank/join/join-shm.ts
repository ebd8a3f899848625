import { joinShmWorld, type ShmWorld } from '@shardwise/collectives/node';
import type { SharedMemoryRank } from './joined-rank.ts';

/** Throws ConfigError. */
export function joinShm(world: ShmWorld, rank: number): SharedMemoryRank {
  const { group, memory, region } = joinShmWorld(world, rank);
  return { group, arena: { memory, ...region } };
}
