import { abortThreadsWorld, createThreadsWorld } from '@shardwise/collectives';
import { abortShmWorld, closeShmWorld, createShmWorld } from '@shardwise/collectives/node';
import type { LocalWay } from '../rank-data.ts';
import type { RankForm } from './transport-choice.ts';

/** Memory that the ranks of this host share. */
export interface LocalTransport {
  readonly way: LocalWay;
  abort(rank: number | undefined, reason: string): void;
  close(): void;
}

/**
 * Makes memory that the ranks of this host share. Pass 'processes' only if shmAvailability allows it. Throws
 * ConfigError.
 */
export function localTransport(form: RankForm, size: number): LocalTransport {
  if (form === 'threads') {
    const world = createThreadsWorld({ size });
    return {
      way: { kind: 'threads', world },
      abort: (rank, reason) => abortThreadsWorld(world, { rank, reason }),
      close: () => undefined,
    };
  }
  const world = createShmWorld({ size });
  return {
    way: { kind: 'shm', world },
    abort: (rank, reason) => abortShmWorld(world, { rank, reason }),
    close: () => closeShmWorld(world),
  };
}
