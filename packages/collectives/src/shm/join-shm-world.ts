import { checkRank } from '../call/checks.ts';
import { Control } from '../shared-memory/control.ts';
import { joinWorld } from '../shared-memory/join-world.ts';
import type { SharedMemoryGroup } from '../shared-memory/shared-memory-group.ts';
import { regionsOf, type MemoryRegion } from '../shared-memory/world-size.ts';
import { openWorld } from './open-world.ts';
import { ProcessPresence } from './process-presence.ts';
import type { ShmWorld } from './shm-world.ts';

/** The group and the memory of a process that has joined a world. */
export interface ShmRank {
  /** The group of all ranks. */
  readonly group: SharedMemoryGroup;
  /** The world's memory as it is mapped into this process. It never grows. */
  readonly memory: WebAssembly.Memory;
  /** The part of the memory for this rank's tensors, which the other ranks read and write without a copy. */
  readonly region: MemoryRegion;
}

/**
 * Joins a world as `rank`. Each rank's process calls it once. Throws ConfigError if another process is that
 * rank, and if the world has been closed.
 */
export function joinShmWorld(world: ShmWorld, rank: number): ShmRank {
  checkRank('joinShmWorld', 'rank', rank, world.size);
  const { memory, size } = openWorld(world, 'all');
  const region = regionsOf(size)[rank] ?? { byteOffset: 0, byteLength: 0 };
  const presence = new ProcessPresence(memory, size.map, rank, world);
  const control = new Control(memory, size.map, presence);
  return { group: joinWorld(memory, control, presence, rank), memory, region };
}
