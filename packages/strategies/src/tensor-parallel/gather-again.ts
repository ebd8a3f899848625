import { type Op, option, type OptionRules, RecomputeRegion } from '@shardwise/core/extend';

/** A style whose module is called with parts, and computes with the whole. */
export interface GatherAgainOptions {
  /**
   * Whether backward gathers an input that is a shard again, instead of keeping the whole for it
   * (Korthikanti et al. 2022): a rank keeps its part, for one more all-gather. Default: false.
   */
  readonly gatherAgain?: boolean;
}

export const gatherAgainRules: OptionRules<GatherAgainOptions> = { gatherAgain: option.flag };

/** What brings a rank the values of others, and other shapes of them. */
const sent: ReadonlySet<Op> = new Set<Op>(['allGather', 'broadcast', 'reshape']);

/**
 * Runs a part of a forward pass whose gathers and broadcasts backward makes again: a rank keeps its
 * own parts, and not those of the others.
 */
export function sendingAgain<T>(body: () => T): T {
  return new RecomputeRegion({ keeps: ({ op }) => !sent.has(op) }).run(body);
}
