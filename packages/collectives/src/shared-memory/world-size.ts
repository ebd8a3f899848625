import { ConfigError, option, type OptionRules } from '@shardwise/core/spec';
import { MemoryMap, MAGIC, MAX_RANKS, PAGE_BYTES, World } from './memory-map.ts';

/** A part of a world's memory. */
export interface MemoryRegion {
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** How a world's memory is divided: the control block, then an arena for each rank. */
export interface WorldSize {
  readonly map: MemoryMap;
  /** The length of each rank's arena; a multiple of PAGE_BYTES. */
  readonly arenaBytes: number;
  /** The length of the whole memory. */
  readonly byteLength: number;
}

/** What a world is to be like. */
export interface WorldOptions {
  /** The number of ranks. */
  readonly size: number;
  /**
   * The length of each rank's arena in bytes. Default: the ranks share out 4 GiB, the limit of 32-bit
   * WebAssembly.
   */
  readonly arenaBytes?: number;
}

export const worldRules: OptionRules<WorldOptions> = {
  size: option.required(option.number),
  arenaBytes: option.number,
};

/** One page less than 4 GiB, so that a byte length has 32 bits. */
const MAX_PAGES = 65535;

/** Divides the memory of a world. Throws ConfigError for sizes out of range, and where it would exceed 4 GiB. */
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
  const controlPages = map.byteLength / PAGE_BYTES;
  const maxArenaPages = Math.floor((MAX_PAGES - controlPages) / size);
  const arenaPages = arenaBytes === undefined ? maxArenaPages : Math.ceil(arenaBytes / PAGE_BYTES);
  if (arenaPages >= 1 && arenaPages <= maxArenaPages) return sizeOf(map, arenaPages);
  throw new ConfigError(
    {
      asked: `${size} arenas of ${arenaBytes ?? 0} bytes`,
      found: `a world has 4 GiB, of which its control block takes ${map.byteLength} bytes`,
      todo: `Pass arenaBytes of 1 to ${maxArenaPages * PAGE_BYTES}`,
    },
    { size, arenaBytes },
  );
}

/** The same world with arenas of half the length; undefined where they cannot be shorter. */
export function halfWorldSize({ map, arenaBytes }: WorldSize): WorldSize | undefined {
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
 * Allocates a shared memory that never grows, so that views of it stay valid. Throws ConfigError where there is
 * no room.
 */
export function allocateMemory(byteLength: number): WebAssembly.Memory {
  const pages = byteLength / PAGE_BYTES;
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
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

/** Makes a world that ranks can join of memory that is all zeros. */
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
