import { checkOptions, option, type OptionRules, shard } from '@shardwise/core/extend';
import { colwiseParallel } from './colwise-parallel.ts';
import { type GatherAgainOptions, gatherAgainRules } from './gather-again.ts';
import { rowwiseParallel } from './rowwise-parallel.ts';
import { sequenceParallel } from './sequence-parallel.ts';
import type { StylePlan } from './styled-modules.ts';
import { vocabParallelEmbedding } from './vocab-parallel-embedding.ts';

/** Options of `gptTensorParallel`. */
export interface GptTensorParallelOptions extends GatherAgainOptions {
  /** The number of heads of the attention. */
  readonly heads: number;
  /** Whether norms and residuals are divided by tokens as well. Default: false. */
  readonly sequenceParallel?: boolean;
  /**
   * Whether the model returns all logits on every rank, or each rank's part of the vocabulary, for
   * vocabParallelCrossEntropy. Default: all.
   */
  readonly logits?: 'all' | 'parts';
}

const gptTensorParallelRules: OptionRules<GptTensorParallelOptions> = {
  ...gatherAgainRules,
  heads: option.required(option.integer(1)),
  sequenceParallel: option.flag,
  logits: option.oneOf('all', 'parts'),
};

/**
 * Megatron's styles for a GPT with the modules `tokens`, `positions`,
 * `blocks.*.{norm1, attention.{qkv, projection}, norm2, up, down}`, `norm` and `head`. They need two
 * all-reduces per block and pass, or the same bytes in all-gathers and reduce-scatters.
 */
export function gptTensorParallel(options: GptTensorParallelOptions): StylePlan {
  checkOptions('gptTensorParallel', options, gptTensorParallelRules);
  const { heads, logits = 'all', gatherAgain = false } = options;
  const isSequenceParallel = options.sequenceParallel ?? false;
  const between = isSequenceParallel ? shard(1) : 'invariant';
  return {
    tokens: vocabParallelEmbedding({ output: between }),
    'blocks.*.attention.qkv': colwiseParallel({
      input: between,
      heads: [heads, heads, heads],
      gatherAgain,
    }),
    'blocks.*.attention.projection': rowwiseParallel({ output: between }),
    'blocks.*.up': colwiseParallel({ input: between, gatherAgain }),
    'blocks.*.down': rowwiseParallel({ output: between }),
    head: colwiseParallel({
      input: between,
      gatherAgain,
      output: logits === 'all' ? 'invariant' : shard(-1),
    }),
    ...(isSequenceParallel
      ? {
          positions: sequenceParallel({ dim: 0, input: 'invariant' }),
          'blocks.*.norm1': sequenceParallel(),
          'blocks.*.norm2': sequenceParallel(),
          norm: sequenceParallel(),
        }
      : {}),
  };
}
