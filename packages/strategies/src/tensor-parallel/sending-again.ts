import { type Op, RecomputeRegion } from '@shardwise/core/extend';

/** What brings a rank the values of others, and other shapes of them. */
const sent: ReadonlySet<Op> = new Set<Op>(['allGather', 'broadcast', 'reshape']);

/**
 * Runs a part of a forward pass whose gathers and broadcasts backward makes again: a rank keeps its
 * own parts, and not those of the others.
 */
export function sendingAgain<T>(body: () => T): T {
  return new RecomputeRegion({ keeps: ({ op }) => !sent.has(op) }).run(body);
}
