import { reasonText } from '@shardwise/core/spec';
import { Control } from '../shared-memory/control.ts';
import { openWorld } from './open-world.ts';
import { ProcessAlarm } from './process-alarm.ts';
import type { ShmWorld } from './shm-world.ts';

/**
 * Ends every group of a world: each pending and future call, on every rank, rejects with
 * CollectiveAbortedError. It can be called from any process. `cause.rank` is the rank that failed, or undefined
 * if none did. If it is called again, the first cause stays. Throws ConfigError if the world has been closed.
 */
export function abortShmWorld(
  world: ShmWorld,
  cause: { readonly rank: number | undefined; readonly reason: unknown },
): void {
  const { memory, size } = openWorld(world, 'control');
  const alarm = new ProcessAlarm(memory, size.map);
  new Control(memory, size.map, alarm).abort({
    rank: cause.rank,
    reason: reasonText(cause.reason),
  });
  alarm.closePipes();
}
