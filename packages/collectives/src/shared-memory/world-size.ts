import { option, type OptionRules } from '@shardwise/core/base';
import { ConfigError } from '@shardwise/core/spec';
import { createSharedMemory, memoryLimits } from '@shardwise/wasm-assembler';
import { MemoryMap, MAGIC, MAX_RANKS, PAGE_BYTES, World } from './world-memory-map.ts';

/** A part of a world's memory. */
export interface MemoryRegion {
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** How a world's memory is divided: the control block, then an arena for each rank. */
export interface WorldSize {
  readonly map: MemoryMap;
  /** The length of each rank's arena. It is a multiple of PAGE_BYTES. */
  readonly arenaBytes: number;
  /** The length of the whole memory. */
  readonly byteLength: number;
}

/** The sizes of a world. */
export interface WorldOptions {
  /** The number of ranks. */
  readonly size: number;
  /**
   * The length of each rank's arena in bytes. Default: the ranks share out three quarters of the machine's
   * memory, at most 16 GiB (4 GiB on Windows and in browsers). While the world has up to 4 GiB, addresses have
   * 32 bits, which is a little faster.
   */
  readonly arenaBytes?: number;
}

export const worldRules: OptionRules<WorldOptions> = {
  size: option.required(option.number),
  arenaBytes: option.number,
};

/**
 * Divides the memory of a world. Throws ConfigError for sizes out of range, and if the memory would exceed what the
 * machine and WebAssembly have.
 */
export function worldSize({ size, arenaBytes }: WorldOptions): WorldSize {
  if (!Number.isInteger(size) || size < 1 || size > MAX_RANKS) {
    throw new ConfigError(
      {
        asked: `Shared memory for ${size} ranks`,
        found: `it holds 1 to ${MAX_RANKS}`,
        todo: 'Use more hosts for more ranks',
      },
      { size, maxRanks: MAX_RANKS },
    );
  }
  const map = new MemoryMap(size);
  const { largestBytes, defaultBytes, reason } = memoryLimits();
  const arenaPagesOf = (byteLength: number): number =>
    Math.floor((byteLength - map.byteLength) / PAGE_BYTES / size);
  const maxArenaPages = arenaPagesOf(largestBytes);
  const arenaPages =
    arenaBytes === undefined ? arenaPagesOf(defaultBytes) : Math.ceil(arenaBytes / PAGE_BYTES);
  if (arenaPages >= 1 && arenaPages <= maxArenaPages) return sizeOf(map, arenaPages);
  throw new ConfigError(
    {
      asked: `${size} arenas of ${arenaBytes ?? 0} bytes`,
      found: `${reason}, of which the world's control block takes ${map.byteLength} bytes`,
      todo: `Pass arenaBytes of 1 to ${maxArenaPages * PAGE_BYTES}, or start fewer ranks`,
    },
    { size, arenaBytes, largestBytes },
  );
}

/** The memory of a world, and how it is divided. */
export interface AllocatedWorld {
  readonly memory: WebAssembly.Memory;
  readonly size: WorldSize;
}

/**
 * Allocates the memory of a world. Its length is what `options` ask for, or by default as much as the address space has
 * room for. Throws ConfigError for options that do not fit, and if there is no room for `arenaBytes`.
 */
export function allocateWorld(options: WorldOptions): AllocatedWorld {
  const mayShrink = options.arenaBytes === undefined;
  for (let size = worldSize(options); ;) {
    try {
      return { memory: allocateMemory(size.byteLength), size };
    } catch (error) {
      const half = mayShrink && error instanceof ConfigError ? halfWorldSize(size) : undefined;
      if (half === undefined) throw error;
      size = half;
    }
  }
}

/** The same world with arenas of half the length. Undefined if they cannot be shorter. */
function halfWorldSize({ map, arenaBytes }: WorldSize): WorldSize | undefined {
  const pages = Math.floor(arenaBytes / PAGE_BYTES / 2);
  return pages >= 1 ? sizeOf(map, pages) : undefined;
}

/** The arena of each rank. */
export function regionsOf({ map, arenaBytes }: WorldSize): readonly MemoryRegion[] {
  return Array.from({ length: map.size }, (_, rank) => ({
    byteOffset: map.byteLength + rank * arenaBytes,
    byteLength: arenaBytes,
  }));
}

/**
 * Allocates a shared memory that never grows, so that views of it stay valid. Throws ConfigError if there is no room.
 */
export function allocateMemory(byteLength: number): WebAssembly.Memory {
  try {
    return createSharedMemory(byteLength);
  } catch (error) {
    throw new ConfigError(
      {
        asked: `Shared memory of ${byteLength} bytes`,
        found: 'the address space has no room for it',
        todo: 'Pass smaller arenaBytes or raise the limit of virtual memory',
      },
      { byteLength },
      { cause: error },
    );
  }
}

/** Turns memory that is all zeros into a world that ranks can join. */
export function initializeWorld(memory: WebAssembly.Memory, map: MemoryMap): void {
  const words = new Int32Array(memory.buffer);
  words[World.size] = map.size;
  Atomics.store(words, map.channelHolders(0) / 4, map.size);
  Atomics.store(words, World.magic, MAGIC);
}

function sizeOf(map: MemoryMap, arenaPages: number): WorldSize {
  const arenaBytes = arenaPages * PAGE_BYTES;
  return { map, arenaBytes, byteLength: map.byteLength + map.size * arenaBytes };
}
