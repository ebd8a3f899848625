import { checkRank } from '../call/checks.ts';
import { Control } from '../shared-memory/control.ts';
import { joinWorld } from '../shared-memory/join-world.ts';
import type { SharedMemoryGroup } from '../shared-memory/shared-memory-group.ts';
import {
  allocateMemory,
  type MemoryRegion,
  regionsOf,
  worldSize,
  type WorldSize,
} from '../shared-memory/world-size.ts';
import { ProcessPresence } from './process-presence.ts';
import type { ShmWorld } from './shm-world.ts';
import { ConfigError, reasonText } from '@shardwise/core/spec';
import { ProcessAlarm } from './process-alarm.ts';
import { closeSync } from 'node:fs';
import { z } from 'zod';
import { MAX_RANKS, PAGE_BYTES } from '../shared-memory/world-memory-map.ts';
import { linuxCalls } from './linux-calls.ts';
import { openMemoryFile } from './open-memory-file.ts';

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

/**
 * Ends every group of a world: each pending and future call, on every rank, rejects with
 * CollectiveAbortedError. It can be called from any process. `cause.rank` is the rank that failed, or undefined
 * if none did. If it is called again, the first cause stays. Throws ConfigError if the world has been closed.
 */
export function abortShmWorld(
  world: ShmWorld,
  cause: { readonly rank: number | undefined; readonly reason: unknown },
): void {
  const { memory, size } = openWorld(world, 'control');
  const alarm = new ProcessAlarm(memory, size.map);
  new Control(memory, size.map, alarm).abort({
    rank: cause.rank,
    reason: reasonText(cause.reason),
  });
  alarm.closePipes();
}

const worldSchema: z.ZodType<ShmWorld> = z.strictObject({
  id: z.string().regex(/^[0-9a-f]{32}$/),
  size: z.int().min(1).max(MAX_RANKS),
  arenaBytes: z.int().min(PAGE_BYTES).multipleOf(PAGE_BYTES),
  pid: z.int().positive(),
  startTicks: z.int().nonnegative(),
  fd: z.int().nonnegative(),
});

/**
 * Maps the memory of a world into this process, all of it or only its control block. Throws ConfigError if it is not
 * there any more.
 */
function openWorld(
  given: ShmWorld,
  part: 'all' | 'control',
): { readonly memory: WebAssembly.Memory; readonly size: WorldSize } {
  const world = checkWorld(given);
  const size = worldSize(world);
  const file = openMemoryFile(world, size.byteLength);
  try {
    const memory = allocateMemory(part === 'all' ? size.byteLength : size.map.byteLength);
    linuxCalls().mapOver(memory, file);
    return { memory, size };
  } finally {
    // The mapping stays when the descriptor is closed.
    closeSync(file);
  }
}

function checkWorld(given: ShmWorld): ShmWorld {
  const parsed = worldSchema.safeParse(given);
  if (parsed.success) return parsed.data;
  throw new ConfigError(
    {
      asked: 'A world of processes',
      found: z.prettifyError(parsed.error),
      todo: 'Give the ranks the world as createShmWorld returned it',
    },
    {},
    { cause: parsed.error },
  );
}
