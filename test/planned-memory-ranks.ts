import { cpu, dist, setRank } from 'shardwise';
import type { RankContext } from '@shardwise/testing/ranks';
import { buildModelOf, type MemoryTask, trainForMemory } from '../bench/memory-training.ts';

type RowContext = RankContext<dist.transports.ThreadsWorld, Omit<MemoryTask, 'rank'>>;

/** Trains a row of the memory benchmark as one rank, and returns the most bytes that its allocator has had in use. */
export async function main({ rank, world, data }: RowContext): Promise<number | null> {
  const group = dist.transports.joinThreadsWorld(world, rank);
  const mesh = new dist.LineMesh('dp', group);
  setRank({ device: await cpu({ memory: world.memory, ...world.regions[rank] }), mesh });
  const task = { ...data, rank };
  const { peakBytes } = await trainForMemory(task, buildModelOf(task));
  await group.barrier();
  group.close();
  // The memory of this row must be free before the next one.
  setRank({ device: await cpu() });
  return peakBytes;
}
