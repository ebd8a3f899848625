import { cpu, dist, setRank } from 'shardwise';
import { dryDevice } from './dry-device.ts';
import { DryGroup } from './dry-group.ts';
import { buildModelOf, type MemoryTask, trainForMemory } from './memory-training.ts';

/**
 * Plans the memory of a rank among `size`: the most bytes that its allocator will have in use. The rank makes the plans of
 * its steps and takes the memory that they say, and nothing is computed or sent.
 */
export async function plannedPeakBytes(
  of: Omit<MemoryTask, 'rank'>,
  size: number,
): Promise<number> {
  const group = new DryGroup(size);
  setRank({ device: dryDevice(await cpu()), mesh: new dist.LineMesh('dp', group) });
  const task = { ...of, rank: group.rank };
  const { peakBytes } = await trainForMemory(task, buildModelOf(task));
  if (peakBytes === null) throw new TypeError('the device counts its memory');
  return peakBytes;
}
