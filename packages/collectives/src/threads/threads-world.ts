import { checkOptions } from '@shardwise/core/base';
import { reasonText } from '@shardwise/core/spec';
import { Control } from '../shared-memory/control.ts';
import { MemoryMap } from '../shared-memory/world-memory-map.ts';
import {
  allocateWorld,
  initializeWorld,
  type MemoryRegion,
  regionsOf,
  type WorldOptions,
  worldRules,
} from '../shared-memory/world-size.ts';
import { ThreadAlarm } from './thread-presence.ts';

/**
 * The ranks of one process and the memory that they share. It is plain data; post it to worker threads. The
 * memory never grows, so views of it stay valid.
 */
export interface ThreadsWorld {
  readonly memory: WebAssembly.Memory;
  readonly size: number;
  /** Where the control block begins, through which the ranks synchronize. Nothing else may write there. */
  readonly controlByteOffset: number;
  /** One region for each rank's tensors. Their lengths are multiples of 64 KiB. */
  readonly regions: readonly MemoryRegion[];
}

/**
 * Makes the memory for `size` ranks, each with an arena of `arenaBytes`. By default the arenas share out three
 * quarters of the machine's memory, at most 16 GiB (4 GiB on Windows and in browsers), or less if the address
 * space has no room for it. Pages cost nothing until they are used. Throws ConfigError for options that do not
 * fit, and if there is no room for `arenaBytes`.
 */
export function createThreadsWorld(options: WorldOptions): ThreadsWorld {
  checkOptions('createThreadsWorld', options, worldRules);
  const { memory, size } = allocateWorld(options);
  initializeWorld(memory, size.map);
  return { memory, size: options.size, controlByteOffset: 0, regions: regionsOf(size) };
}

/**
 * Ends every group of a world: each pending and future call, on every rank, rejects with
 * CollectiveAbortedError. It can be called from any thread. `cause.rank` is the rank that failed, or undefined
 * if none did. If it is called again, the first cause stays.
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
