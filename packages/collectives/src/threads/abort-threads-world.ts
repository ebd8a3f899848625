import { reasonText } from '../call/failure.ts';
import { Control } from './control.ts';
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
  new Control(world).abort({ rank: cause.rank, reason: reasonText(cause.reason) });
}
