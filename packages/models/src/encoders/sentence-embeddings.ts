import { checkOptions, option, type OptionRules, Tensor } from '@shardwise/core/extend';

/** Options of `sentenceEmbeddings`. */
export interface SentenceEmbeddingOptions {
  /** 1 or true for tokens, 0 or false for padding, which does not count. Shape: [B, T]. Default: no padding. */
  readonly attentionMask?: Tensor;
  /** Whether vectors get length 1, so that the product of two is their cosine. Default: true. */
  readonly normalize?: boolean;
}

const rules: OptionRules<SentenceEmbeddingOptions> = {
  attentionMask: option.instanceOf(Tensor),
  normalize: option.flag,
};

/**
 * One vector of each row: the mean of the vectors of its tokens (Reimers and Gurevych 2019). These are what models such
 * as MiniLM are trained for, whose folders have a `1_Pooling`. A row of padding gets zeros.
 * Shape: hidden [B, T, C], what an encoder returns -> [B, C].
 */
export function sentenceEmbeddings(hidden: Tensor, options: SentenceEmbeddingOptions = {}): Tensor {
  checkOptions('sentenceEmbeddings', options, rules);
  const { attentionMask, normalize = true } = options;
  const mean = attentionMask === undefined ? hidden.mean(1) : maskedMean(hidden, attentionMask);
  if (!normalize) return mean;
  return mean.div(mean.norm(-1, { keepDim: true }).clamp(1e-12));
}

/** Shape: hidden [B, T, C], mask [B, T] -> [B, C]. */
function maskedMean(hidden: Tensor, mask: Tensor): Tensor {
  const weights = mask.ne(0).to(hidden.dtype).unsqueeze(-1);
  return hidden.mul(weights).sum(1).div(weights.sum(1).clamp(1e-9));
}
