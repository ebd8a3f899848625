import { checkRank } from '../call/checks.ts';
import { Control } from './control.ts';
import { Lanes } from './lanes.ts';
import { BOUNCE_BYTES } from './layout.ts';
import { Progress } from './progress.ts';
import { SharedMemory } from './shared-memory.ts';
import { ThreadsProcessGroup } from './threads-process-group.ts';
import type { ThreadsWorld } from './world.ts';

/** The group of all ranks of a world; to be called once on each rank's thread. */
export function joinThreadsWorld(world: ThreadsWorld, rank: number): ThreadsProcessGroup {
  checkRank('joinThreadsWorld', 'rank', rank, world.size);
  const control = new Control(world);
  const { layout } = control;
  const memory = new SharedMemory(world.memory, layout.table(rank), {
    byteOffset: layout.bounce(rank),
    byteLength: BOUNCE_BYTES,
  });
  const progress = new Progress(control, rank);
  const members = Array.from({ length: world.size }, (_, member) => member);
  const lanes = new Lanes(control, 0, members, rank);
  return new ThreadsProcessGroup({ worldRank: rank, memory, progress }, lanes);
}
