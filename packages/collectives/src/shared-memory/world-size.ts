import { ConfigError, option, type OptionRules } from '@shardwise/core/spec';
import { Layout, MAGIC, MAX_RANKS, PAGE_BYTES, World } from './layout.ts';

/** Part of a world's memory. */
export interface MemoryRegion {
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** How much memory a world takes: the control block, then an arena for each rank. */
export interface WorldSize {
  readonly layout: Layout;
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
  const layout = new Layout(size);
  const controlPages = layout.byteLength / PAGE_BYTES;
  const maxArenaPages = Math.floor((MAX_PAGES - controlPages) / size);
  const arenaPages = arenaBytes === undefined ? maxArenaPages : Math.ceil(arenaBytes / PAGE_BYTES);
  if (arenaPages >= 1 && arenaPages <= maxArenaPages) return sizeOf(layout, arenaPages);
  throw new ConfigError(
    {
      asked: `${size} arenas of ${arenaBytes ?? 0} bytes`,
      found: `a world has 4 GiB, of which its control block takes ${layout.byteLength} bytes`,
      todo: `Pass arenaBytes of 1 to ${maxArenaPages * PAGE_BYTES}`,
    },
    { size, arenaBytes },
  );
}

/** The same with arenas of half the size; undefined where they cannot be smaller. */
export function halfWorldSize({ layout, arenaBytes }: WorldSize): WorldSize | undefined {
  const pages = Math.floor(arenaBytes / PAGE_BYTES / 2);
  return pages >= 1 ? sizeOf(layout, pages) : undefined;
}

/** The arena of each rank. */
export function regionsOf({ layout, arenaBytes }: WorldSize): readonly MemoryRegion[] {
  return Array.from({ length: layout.size }, (_, rank) => ({
    byteOffset: layout.byteLength + rank * arenaBytes,
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
export function initializeWorld(memory: WebAssembly.Memory, layout: Layout): void {
  const words = new Int32Array(memory.buffer);
  words[World.size] = layout.size;
  Atomics.store(words, layout.channelHolders(0) / 4, layout.size);
  Atomics.store(words, World.magic, MAGIC);
}

function sizeOf(layout: Layout, arenaPages: number): WorldSize {
  const arenaBytes = arenaPages * PAGE_BYTES;
  return { layout, arenaBytes, byteLength: layout.byteLength + layout.size * arenaBytes };
}
