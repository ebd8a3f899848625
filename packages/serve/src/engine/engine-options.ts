import { ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import { AdapterStack } from '@shardwise/models';
import { type KvCacheDtype, kvCacheDtypes } from '../cache/kept-rows.ts';
import type { Speculation } from '../speculation/speculation.ts';
import { type SchedulerOptions, schedulerRules } from '../scheduling/scheduler-options.ts';

/** Options of an engine. */
export interface EngineOptions extends Omit<SchedulerOptions, 'blockCount' | 'swapBlocks'> {
  /** The number of tokens for which the cache has places. Default: eight times the context, at most 16384. */
  readonly cacheTokens?: number;
  /**
   * What keys and values are kept in: `auto` is the dtype in which the model computes them. With fewer bits, more tokens
   * fit, and texts agree with those of training only up to rounding. Default: 'auto'. The names are those of vLLM.
   */
  readonly kvCacheDtype?: KvCacheDtype;
  /**
   * What becomes of keys and values of a sequence whose blocks another one needs: `recompute` forgets them, and `swap`
   * copies them to the memory of the host while `swapSpace` has room. Texts are the same. Default: 'recompute'.
   */
  readonly preemption?: 'recompute' | 'swap';
  /** The most bytes of the host for `swap`. Default: 2 ** 30. The name is vLLM's, where it is in GiB. */
  readonly swapSpace?: number;
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
  /** The adapters of the model, of which each request names one: what `stackAdapters` returned. Default: none. */
  readonly adapters?: AdapterStack;
  /** The time in milliseconds, for deadlines. Default: `performance.now`. */
  readonly now?: () => number;
}

const { blockCount: _, swapBlocks: __, ...ofScheduler } = schedulerRules;

export const engineRules: OptionRules<EngineOptions> = {
  ...ofScheduler,
  cacheTokens: option.integer(1),
  kvCacheDtype: option.oneOf(...kvCacheDtypes),
  preemption: option.oneOf('recompute', 'swap'),
  swapSpace: option.count,
  speculation: option.object<Speculation>("an object with the method 'ngram' or 'draft'"),
  beforeStep: option.callback(),
  adapters: option.instanceOf(AdapterStack),
  now: option.callback(),
};

const MAX_CACHE_TOKENS = 16384;

const SWAP_SPACE = 2 ** 30;

/** The bytes that swapped blocks may take. Throws ConfigError for a space that nothing would use. */
export function swapSpaceOf({ preemption = 'recompute', swapSpace }: EngineOptions): number {
  if (preemption === 'swap') return swapSpace ?? SWAP_SPACE;
  if (swapSpace === undefined) return 0;
  throw new ConfigError(
    {
      asked: `an engine with swapSpace: ${swapSpace}`,
      found: `preemption: '${preemption}', which copies nothing out of the cache`,
      todo: "Add preemption: 'swap', or leave it out",
    },
    { swapSpace },
  );
}

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
