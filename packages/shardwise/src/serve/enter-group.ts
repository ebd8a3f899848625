import { createMesh, type ThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { joinThreads } from '../rank/join/join-shared-memory.ts';
import type { ServeOptions } from './serve-options.ts';
import { servingDevice } from './serving-device.ts';

/** Which rank this thread is of those over which a replica is divided. */
export interface GroupPlace {
  readonly world: ThreadsWorld;
  readonly rank: number;
}

/** Makes this thread a rank: alone, or of a group. */
export async function enterGroup(options: ServeOptions, place: GroupPlace | null): Promise<void> {
  if (place === null) {
    setRank({ device: await servingDevice(options, process.env) });
    return;
  }
  const { group, arena } = joinThreads(place.world, place.rank);
  const device = await servingDevice(options, process.env, arena);
  setRank({ device, mesh: await createMesh(group, [{ name: 'tp', size: group.size }]) });
}
