import { reasonText } from '../call/failure.ts';
import { Control } from '../shared-memory/control.ts';
import { Layout } from '../shared-memory/layout.ts';
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
  const layout = new Layout(size);
  const control = new Control(memory, layout, new ThreadAlarm(memory, layout));
  control.abort({ rank: cause.rank, reason: reasonText(cause.reason) });
}
