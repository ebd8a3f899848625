import { checkRank } from '../call/checks.ts';
import { Control } from '../shared-memory/control.ts';
import { joinWorld } from '../shared-memory/join-world.ts';
import { Layout } from '../shared-memory/layout.ts';
import type { SharedMemoryGroup } from '../shared-memory/shared-memory-group.ts';
import { ThreadPresence } from './thread-presence.ts';
import type { ThreadsWorld } from './world.ts';

/** The group of all ranks of a world; to be called once on each rank's thread. */
export function joinThreadsWorld(world: ThreadsWorld, rank: number): SharedMemoryGroup {
  const { memory, size } = world;
  checkRank('joinThreadsWorld', 'rank', rank, size);
  const layout = new Layout(size);
  const presence = new ThreadPresence(memory, layout, rank);
  return joinWorld(memory, new Control(memory, layout, presence), presence, rank);
}
