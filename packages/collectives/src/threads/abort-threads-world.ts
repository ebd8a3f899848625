import { reasonText } from '../call/failure.ts';
import { Control } from '../shared-memory/control.ts';
import { MemoryMap } from '../shared-memory/memory-map.ts';
import { ThreadAlarm } from './thread-alarm.ts';
import type { ThreadsWorld } from './world.ts';

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
