import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { coreYielder, joinShmWorld, type ShmWorld } from '@shardwise/collectives/node';
import { ConfigError } from '@shardwise/core/extend';
import type { SharedMemoryRank } from './joined-rank.ts';

/** Joins ranks that are threads of this process. Throws ConfigError. */
export function joinThreads(world: ThreadsWorld, rank: number): SharedMemoryRank {
  const region = world.regions[rank];
  if (region === undefined) {
    throw new ConfigError(
      {
        asked: `Rank ${rank} joining its world`,
        found: `a world of ${world.size} ranks`,
        todo: 'Use one version of shardwise for the launcher and the script',
      },
      { rank, size: world.size },
    );
  }
  const group = joinThreadsWorld(world, rank, { yieldCore: coreYielder() });
  return { group, arena: { memory: world.memory, ...region } };
}

/** Joins ranks that are processes of this host. Throws ConfigError. */
export function joinShm(world: ShmWorld, rank: number): SharedMemoryRank {
  const { group, memory, region } = joinShmWorld(world, rank);
  return { group, arena: { memory, ...region } };
}
