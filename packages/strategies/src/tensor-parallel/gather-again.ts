import { type Op, option, type OptionRules, RecomputeRegion } from '@shardwise/core/extend';

/** Options of a style whose module is called with parts and computes with the whole. */
export interface GatherAgainOptions {
  /**
   * Whether the backward pass gathers a sharded input again instead of keeping it whole (Korthikanti et al.
   * 2022). A rank then keeps only its part, and there is one more all-gather. Default: false.
   */
  readonly gatherAgain?: boolean;
}

export const gatherAgainRules: OptionRules<GatherAgainOptions> = { gatherAgain: option.flag };

/** The operations that bring values of other ranks, and the one that changes their shape. */
const sent: ReadonlySet<Op> = new Set<Op>(['allGather', 'broadcast', 'reshape']);

/**
 * Runs a part of a forward pass. The backward pass repeats its gathers and broadcasts, so a rank keeps its own parts
 * and not those of others.
 */
export function sendingAgain<T>(body: () => T): T {
  return new RecomputeRegion({ keeps: ({ op }) => !sent.has(op) }).run(body);
}
