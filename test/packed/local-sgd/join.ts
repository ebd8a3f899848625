import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import type { Backend, ProcessGroup } from '@shardwise/core';
import type { RankContext } from '@shardwise/testing/ranks';

/** Makes this thread a rank of a world of threads. */
export async function join({
  rank,
  world,
}: RankContext<ThreadsWorld>): Promise<{ group: ProcessGroup; device: Backend }> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const group = joinThreadsWorld(world, rank);
  return { group, device: await cpu({ memory: world.memory, ...region }) };
}
