import { ConfigError, option, type OptionRules } from '@shardwise/core/spec';
import { MemoryMap, MAGIC, MAX_RANKS, PAGE_BYTES, World } from './memory-map.ts';

/** Part of a world's memory. */
export interface MemoryRegion {
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** How much memory a world takes: the control block, then an arena for each rank. */
export interface WorldSize {
  readonly map: MemoryMap;
  /** Of each rank; a multiple of PAGE_BYTES. */
  readonly arenaBytes: number;
  /** Of everything. */
  readonly byteLength: number;
}

/** What a world is made for. */
export interface WorldOptions {
  /** Ranks. */
  readonly size: number;
  /** Of each rank's arena. Default: as large as 4 GiB, the limit of 32-bit WebAssembly, allows. */
  readonly arenaBytes?: number;
}

export const worldRules: OptionRules<WorldOptions> = {
  size: option.required(option.number),
  arenaBytes: option.number,
};

/** One less than 4 GiB, so that a byte length fits 32 bits. */
const MAX_PAGES = 65535;

/** Throws ConfigError for what does not fit. */
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

/** The same with arenas of half the size; undefined where they cannot be smaller. */
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

/** A shared memory that never grows, so that views of it stay valid. Throws ConfigError. */
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

/** Makes zeroed memory a world that ranks can join. */
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
