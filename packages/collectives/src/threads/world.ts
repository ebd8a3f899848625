import { checkOptions, ConfigError } from '@shardwise/core/spec';
import {
  allocateMemory,
  halfWorldSize,
  initializeWorld,
  regionsOf,
  worldRules,
  worldSize,
  type MemoryRegion,
  type WorldOptions,
  type WorldSize,
} from '../shared-memory/world-size.ts';

/**
 * Ranks of one process and the memory they share; plain data, to be posted to worker threads. The
 * memory never grows, so views of it stay valid.
 */
export interface ThreadsWorld {
  readonly memory: WebAssembly.Memory;
  readonly size: number;
  /** Where the ranks meet; not for others to write. */
  readonly controlByteOffset: number;
  /** One for each rank, for its tensors; multiples of 64 KiB. */
  readonly regions: readonly MemoryRegion[];
}

/**
 * Memory for `size` ranks, each with an arena of `arenaBytes`: by default as large as 4 GiB, the
 * limit of 32-bit WebAssembly, or else the address space allows. Pages cost nothing until used.
 * Throws ConfigError.
 */
export function createThreadsWorld(options: WorldOptions): ThreadsWorld {
  checkOptions('createThreadsWorld', options, worldRules);
  const asked = worldSize(options);
  const { size, arenaBytes } = options;
  const { memory, granted } = allocate(asked, arenaBytes === undefined);
  initializeWorld(memory, granted.map);
  return { memory, size, controlByteOffset: 0, regions: regionsOf(granted) };
}

function allocate(
  asked: WorldSize,
  mayShrink: boolean,
): { readonly memory: WebAssembly.Memory; readonly granted: WorldSize } {
  try {
    return { memory: allocateMemory(asked.byteLength), granted: asked };
  } catch (error) {
    const half = mayShrink && error instanceof ConfigError ? halfWorldSize(asked) : undefined;
    if (half === undefined) throw error;
    return allocate(half, mayShrink);
  }
}
