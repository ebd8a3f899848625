import { ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import type { Speculation } from '../speculation/speculation.ts';
import { type SchedulerOptions, schedulerRules } from '../scheduling/scheduler.ts';

/** Options of an engine. */
export interface EngineOptions extends Omit<SchedulerOptions, 'blockCount'> {
  /** The number of tokens for which the cache has places. Default: eight times the context, at most 16384. */
  readonly cacheTokens?: number;
  /**
   * How tokens are proposed, of which a step computes several for a sequence. Texts are the same with it. Default: none
   * are.
   */
  readonly speculation?: Speculation;
  /**
   * Is called and awaited before each step, as to let a page draw what the step before did, or to share a device. If it
   * fails, so do all requests. Default: nothing is.
   */
  readonly beforeStep?: () => Promise<void> | void;
  /** The time in milliseconds, for deadlines. Default: `performance.now`. */
  readonly now?: () => number;
}

const { blockCount: _, ...ofScheduler } = schedulerRules;

export const engineRules: OptionRules<EngineOptions> = {
  ...ofScheduler,
  cacheTokens: option.integer(1),
  speculation: option.object<Speculation>("an object with the method 'ngram' or 'draft'"),
  beforeStep: option.callback(),
  now: option.callback(),
};

const MAX_CACHE_TOKENS = 16384;

/** Throws ConfigError for a cache that has no place for a single token more than a block. */
export function blockCountOf(
  { cacheTokens, blockSize = 16 }: EngineOptions,
  contextLength: number,
): number {
  const tokens = cacheTokens ?? Math.min(MAX_CACHE_TOKENS, 8 * contextLength);
  const blocks = Math.floor(tokens / blockSize);
  if (blocks > 0) return blocks;
  throw new ConfigError(
    {
      asked: `an engine with a cache of ${tokens} tokens`,
      found: `blocks of ${blockSize} tokens, of which none fits`,
      todo: 'Give a larger cacheTokens, or a smaller blockSize',
    },
    { cacheTokens: tokens, blockSize },
  );
}
