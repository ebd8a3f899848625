import { checkOptions } from '@shardwise/core/base';
import { reasonText } from '@shardwise/core/spec';
import { type WorldOptions, worldRules } from '../shared-memory/world-size.ts';
import {
  abortThreadsWorld,
  createThreadsWorld,
  type ThreadsWorld,
} from '../threads/threads-world.ts';
import { connectPorts } from './connect-ports.ts';
import type { PortMessage } from './port-message.ts';

/** The data that one worker needs to join. Post it to the worker with `ports` as the transfer list. */
export interface PageRank {
  readonly rank: number;
  readonly size: number;
  /** Undefined if the ranks share no memory. */
  readonly world: ThreadsWorld | undefined;
  /** Empty if the ranks share memory. */
  readonly ports: MessagePort[];
}

/** Ranks that are workers of one page, and how they communicate. */
export interface PageWorld {
  readonly size: number;
  readonly transport: 'shared memory' | 'ports';
  /** Why the ranks use this transport. */
  readonly reason: string;
  /** What each rank needs, by rank. Each can be posted once. */
  readonly ranks: readonly PageRank[];
  /** Ends every call on every rank. `rank` is the rank that failed, or undefined if none did. */
  abort(cause: { readonly rank: number | undefined; readonly reason: unknown }): void;
}

/**
 * Makes a world for the workers of a page, which join it by joinPageWorld. If the page is isolated, the ranks
 * share memory, with an arena of `arenaBytes` for each rank's tensors. Otherwise they communicate over ports.
 * Throws ConfigError for options that do not fit.
 *
 *     worker.postMessage(world.ranks[rank], world.ranks[rank].ports)
 */
export function createPageWorld(options: WorldOptions): PageWorld {
  checkOptions('createPageWorld', options, worldRules);
  const { available, reason } = sharingAvailability();
  return available ? sharingWorld(options, reason) : portsWorld(options.size, reason);
}

function sharingWorld(options: WorldOptions, reason: string): PageWorld {
  const world = createThreadsWorld(options);
  const { size } = world;
  return {
    size,
    transport: 'shared memory',
    reason,
    ranks: Array.from({ length: size }, (_, rank) => ({ rank, size, world, ports: [] })),
    abort: (cause) => abortThreadsWorld(world, cause),
  };
}

function portsWorld(size: number, reason: string): PageWorld {
  const { ranks, starter } = connectPorts(size);
  return {
    size,
    transport: 'ports',
    reason,
    ranks: ranks.map((ports, rank) => ({ rank, size, world: undefined, ports: [...ports] })),
    abort: (cause) => {
      const { rank } = cause;
      const message: PortMessage = { kind: 'abort', rank, reason: reasonText(cause.reason) };
      for (const port of starter) port.postMessage(message);
    },
  };
}

/** Whether workers can share memory here, and why. */
interface SharingAvailability {
  readonly available: boolean;
  readonly reason: string;
}

/** Whether workers can share memory here. In a browser they can if the page is isolated from other sites. */
function sharingAvailability(): SharingAvailability {
  // Only browsers have this property.
  if ('crossOriginIsolated' in globalThis && !globalThis.crossOriginIsolated) {
    return {
      available: false,
      reason:
        'the page is not isolated: serve it with the headers ' +
        'Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp',
    };
  }
  if (typeof Atomics.waitAsync !== 'function') {
    return { available: false, reason: 'this browser has no Atomics.waitAsync' };
  }
  return { available: true, reason: 'workers can share memory here' };
}
