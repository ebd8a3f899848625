import { ConfigError } from '@shardwise/core/spec';
import { Layout, MAGIC, MAX_RANKS, PAGE_BYTES, World } from './layout.ts';

/** Part of a world's memory. */
export interface MemoryRegion {
  readonly byteOffset: number;
  readonly byteLength: number;
}

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

/** One less than 4 GiB, so that a byte length fits 32 bits. */
const MAX_PAGES = 65535;

/**
 * Memory for `size` ranks, each with an arena of `arenaBytes`: by default as large as 4 GiB, the
 * limit of 32-bit WebAssembly, or else the address space allows. Pages cost nothing until used.
 * Throws ConfigError.
 */
export function createThreadsWorld(options: {
  readonly size: number;
  readonly arenaBytes?: number;
}): ThreadsWorld {
  const { size, arenaBytes } = options;
  if (!Number.isInteger(size) || size < 1 || size > MAX_RANKS) {
    throw new ConfigError(
      {
        asked: `A threads world of ${size} ranks`,
        found: `a process holds 1 to ${MAX_RANKS}`,
        todo: 'Use more processes for more ranks',
      },
      { size, maxRanks: MAX_RANKS },
    );
  }
  const layout = new Layout(size);
  const controlPages = layout.byteLength / PAGE_BYTES;
  const arenaPages =
    arenaBytes === undefined
      ? Math.floor((MAX_PAGES - controlPages) / size)
      : Math.ceil(arenaBytes / PAGE_BYTES);
  if (!(arenaPages >= 1) || controlPages + size * arenaPages > MAX_PAGES) {
    throw new ConfigError(
      {
        asked: `${size} arenas of ${arenaBytes ?? 0} bytes`,
        found: `a world has 4 GiB, of which its control block takes ${layout.byteLength} bytes`,
        todo: `Pass arenaBytes of 1 to ${Math.floor((MAX_PAGES - controlPages) / size) * PAGE_BYTES}`,
      },
      { size, arenaBytes },
    );
  }
  const { memory, pages } = allocate(controlPages, arenaPages, size, arenaBytes === undefined);
  const words = new Int32Array(memory.buffer);
  words[World.size] = size;
  Atomics.store(words, layout.channelHolders(0) / 4, size);
  Atomics.store(words, World.magic, MAGIC);
  const byteLength = pages * PAGE_BYTES;
  const regions = Array.from({ length: size }, (_, rank) => ({
    byteOffset: layout.byteLength + rank * byteLength,
    byteLength,
  }));
  return { memory, size, controlByteOffset: 0, regions };
}

function allocate(
  controlPages: number,
  arenaPages: number,
  size: number,
  mayShrink: boolean,
): { readonly memory: WebAssembly.Memory; readonly pages: number } {
  for (let pages = arenaPages; ; pages = Math.floor(pages / 2)) {
    const total = controlPages + size * pages;
    try {
      const memory = new WebAssembly.Memory({ initial: total, maximum: total, shared: true });
      return { memory, pages };
    } catch (error) {
      if (mayShrink && pages > 1) continue;
      throw new ConfigError(
        {
          asked: `Shared memory of ${total * PAGE_BYTES} bytes`,
          found: 'the address space has no room for it',
          todo: 'Pass smaller arenaBytes or raise the limit of virtual memory',
        },
        { size, bytes: total * PAGE_BYTES },
        { cause: error },
      );
    }
  }
}
