import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import { checkRank } from '../call/checks.ts';
import { Control } from '../shared-memory/control.ts';
import { joinWorld } from '../shared-memory/join-world.ts';
import { MemoryMap } from '../shared-memory/world-memory-map.ts';
import type { SharedMemoryGroup } from '../shared-memory/shared-memory-group.ts';
import { ThreadPresence } from './thread-presence.ts';
import type { ThreadsWorld } from './threads-world.ts';

/** Options of `joinThreadsWorld`. */
export interface JoinThreadsOptions {
  /**
   * Lets other threads run on this core. Waiting ranks call it if there are more ranks than cores. On Node,
   * `coreYielder()` returns such a function. Default: they sleep until they are woken, which takes longer.
   */
  readonly yieldCore?: (() => void) | undefined;
}

const joinRules: OptionRules<JoinThreadsOptions> = { yieldCore: option.callback() };

/**
 * The group of all ranks of a world. Each rank's thread calls it once. Throws ConfigError for a rank that the
 * world does not have.
 */
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
