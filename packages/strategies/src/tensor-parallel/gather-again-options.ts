import { option, type OptionRules } from '@shardwise/core/extend';
/** A style whose module is called with parts, and computes with the whole. */
export interface GatherAgainOptions {
  /**
   * Whether backward gathers an input that is a shard again, instead of keeping the whole for it
   * (Korthikanti et al. 2022): a rank keeps its part, for one more all-gather. Default: false.
   */
  readonly gatherAgain?: boolean;
}

export const gatherAgainRules: OptionRules<GatherAgainOptions> = { gatherAgain: option.flag };
