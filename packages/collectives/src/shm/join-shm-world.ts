import { checkRank } from '../call/checks.ts';
import { Control } from '../shared-memory/control.ts';
import { joinWorld } from '../shared-memory/join-world.ts';
import type { SharedMemoryGroup } from '../shared-memory/shared-memory-group.ts';
import { regionsOf, type MemoryRegion } from '../shared-memory/world-size.ts';
import { openWorld } from './open-world.ts';
import { ProcessPresence } from './process-presence.ts';
import type { ShmWorld } from './shm-world.ts';

/** What a process is in its world. */
export interface ShmRank {
  /** Of all ranks. */
  readonly group: SharedMemoryGroup;
  /** The world's memory as this process maps it; it never grows. */
  readonly memory: WebAssembly.Memory;
  /** The part of it for this rank's tensors: the others read and write them without a copy. */
  readonly region: MemoryRegion;
}

/** To be called once in each rank's process. Throws ConfigError. */
export function joinShmWorld(world: ShmWorld, rank: number): ShmRank {
  checkRank('joinShmWorld', 'rank', rank, world.size);
  const { memory, size } = openWorld(world, 'all');
  const region = regionsOf(size)[rank] ?? { byteOffset: 0, byteLength: 0 };
  const presence = new ProcessPresence(memory, size.map, rank, world);
  const control = new Control(memory, size.map, presence);
  return { group: joinWorld(memory, control, presence, rank), memory, region };
}
