import { closeSync } from 'node:fs';
import { ConfigError } from '@shardwise/core/spec';
import { z } from 'zod';
import { MAX_RANKS, PAGE_BYTES } from '../shared-memory/world-memory-map.ts';
import { allocateMemory, worldSize, type WorldSize } from '../shared-memory/world-size.ts';
import { linuxCalls } from './linux-calls.ts';
import { openMemoryFile } from './open-memory-file.ts';
import type { ShmWorld } from './shm-world.ts';

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
export function openWorld(
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
