import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/spec';
import { checkRank } from '../call/checks.ts';
import { reasonText } from '../call/failure.ts';
import { Control } from '../shared-memory/control.ts';
import { joinWorld } from '../shared-memory/join-world.ts';
import { MemoryMap } from '../shared-memory/memory-map.ts';
import type { SharedMemoryGroup } from '../shared-memory/shared-memory-group.ts';
import {
  allocateMemory,
  halfWorldSize,
  initializeWorld,
  type MemoryRegion,
  regionsOf,
  type WorldOptions,
  worldRules,
  worldSize,
  type WorldSize,
} from '../shared-memory/world-size.ts';
import { ThreadAlarm, ThreadPresence } from './thread-presence.ts';

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

export interface JoinThreadsOptions {
  /**
   * Lets other threads run on this core, which ranks that wait do where they outnumber the cores; on
   * Node `coreYielder()` has it. Default: they sleep until they are woken, which takes longer.
   */
  readonly yieldCore?: (() => void) | undefined;
}

const joinRules: OptionRules<JoinThreadsOptions> = { yieldCore: option.callback() };

/** The group of all ranks of a world; to be called once on each rank's thread. */
export function joinThreadsWorld(
  world: ThreadsWorld,
  rank: number,
  options: JoinThreadsOptions = {},
): SharedMemoryGroup {
  checkOptions('joinThreadsWorld', options, joinRules);
  const { memory, size } = world;
  checkRank('joinThreadsWorld', 'rank', rank, size);
  const map = new MemoryMap(size);
  const presence = new ThreadPresence(memory, map, rank, options.yieldCore);
  return joinWorld(memory, new Control(memory, map, presence), presence, rank);
}

/**
 * Ends every group of a world: each pending and future call, on every rank, rejects with
 * CollectiveAbortedError. Call it from any thread, with the rank that failed, if one did. The
 * first cause stays.
 */
export function abortThreadsWorld(
  world: ThreadsWorld,
  cause: { readonly rank: number | undefined; readonly reason: unknown },
): void {
  const { memory, size } = world;
  const map = new MemoryMap(size);
  const control = new Control(memory, map, new ThreadAlarm(memory, map));
  control.abort({ rank: cause.rank, reason: reasonText(cause.reason) });
}
