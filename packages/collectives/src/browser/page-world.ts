import { checkOptions, type ProcessGroup } from '@shardwise/core/spec';
import { reasonText } from '../call/failure.ts';
import { createGroup } from '../group/create-group.ts';
import { type WorldOptions, worldRules } from '../shared-memory/world-size.ts';
import {
  abortThreadsWorld,
  createThreadsWorld,
  joinThreadsWorld,
  type ThreadsWorld,
} from '../threads/threads-world.ts';
import { connectPorts } from './connect-ports.ts';
import type { PortMessage } from './port-message.ts';
import { portTransport } from './port-transport.ts';
import { sharingAvailability } from './sharing-availability.ts';

/** What one worker needs to join; to be posted to it, with `ports` as transfer list. */
export interface PageRank {
  readonly rank: number;
  readonly size: number;
  /** Undefined where the ranks share no memory. */
  readonly world: ThreadsWorld | undefined;
  /** Empty where they do. */
  readonly ports: MessagePort[];
}

/** Ranks that are workers of one page, and how they communicate. */
export interface PageWorld {
  readonly size: number;
  readonly transport: 'shared memory' | 'ports';
  /** Why that one. */
  readonly reason: string;
  /** By rank; each can be posted once. */
  readonly ranks: readonly PageRank[];
  /** Ends every call on every rank; `rank` is the one that failed, if one did. */
  abort(cause: { readonly rank: number | undefined; readonly reason: unknown }): void;
}

/**
 * A world for the workers of a page, who get in by joinPageWorld: over memory that they share where
 * the page is isolated, with an arena of `arenaBytes` for each rank's tensors; else over ports.
 *
 *   worker.postMessage(world.ranks[rank], world.ranks[rank].ports)
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

/** The group of all ranks of a page's world; to be called once on each rank's worker. */
export function joinPageWorld({ rank, size, world, ports }: PageRank): ProcessGroup {
  if (world !== undefined) return joinThreadsWorld(world, rank);
  return createGroup(portTransport({ rank, size, ports }));
}
