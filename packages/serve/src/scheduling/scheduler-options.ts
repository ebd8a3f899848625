import { option, type OptionRules } from '@shardwise/core/extend';
import type { SchedulingPolicy } from './policies.ts';

/** Options of a scheduler. The names are those of vLLM. */
export interface SchedulerOptions {
  /** The number of blocks of the cache. */
  readonly blockCount: number;
  /** The number of tokens of a block. Default: 16. */
  readonly blockSize?: number;
  /** The most sequences that run at once. Default: 32. */
  readonly maxSequences?: number;
  /**
   * The most tokens of a prompt that a step computes, so that sequences that go on need not wait for a long prompt. Products of
   * few rows cost more for each row: on a processor, 1.4 times as much with 64 rows as with 512. Default: 256.
   */
  readonly maxChunkTokens?: number;
  /**
   * How many times as long as a step without a chunk of a prompt a step with one may take. Chunks beside sequences that go on
   * are then as small as this asks for, by what steps were measured to take. Default: chunks do not depend on times.
   */
  readonly maxStepRatio?: number;
  /** Who comes first. Default: `firstCome`. */
  readonly policy?: SchedulingPolicy;
  /** Whether sequences begin with blocks of others that have the same tokens. Default: true. */
  readonly prefixCaching?: boolean;
  /**
   * How many blocks may be copied out of the cache, so that preempted sequences need not compute their tokens again.
   * Default: none.
   */
  readonly swapBlocks?: () => number;
}

export const schedulerRules: OptionRules<SchedulerOptions> = {
  blockCount: option.required(option.integer(1)),
  blockSize: option.integer(1),
  maxSequences: option.integer(1),
  maxChunkTokens: option.integer(1),
  maxStepRatio: option.positive,
  policy: option.callback(),
  prefixCaching: option.flag,
  swapBlocks: option.callback(),
};
