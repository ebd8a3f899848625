import type { Presence } from './alarm.ts';
import type { Control } from './control.ts';
import { CallSlots } from './call-slots.ts';
import { BOUNCE_BYTES } from './world-memory-map.ts';
import { Progress } from './progress.ts';
import { SharedMemory } from './shared-memory.ts';
import { SharedMemoryGroup } from './shared-memory-group.ts';

/** The group of all ranks of a world. Each rank calls it once. */
export function joinWorld(
  memory: WebAssembly.Memory,
  control: Control,
  presence: Presence,
  rank: number,
): SharedMemoryGroup {
  const { map } = control;
  const shared = new SharedMemory(memory, map.table(rank), {
    byteOffset: map.bounce(rank),
    byteLength: BOUNCE_BYTES,
  });
  const progress = new Progress(control, rank, presence);
  const members = Array.from({ length: map.size }, (_, member) => member);
  const slots = new CallSlots(control, 0, members, rank);
  return new SharedMemoryGroup({ worldRank: rank, memory: shared, progress }, slots);
}
