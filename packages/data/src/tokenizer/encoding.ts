import { option, type OptionRules } from '@shardwise/core/extend';
import type { TruncationSide } from './truncate.ts';

/** Options of `encode`. */
export interface EncodeOptions {
  /** A second text, which the tokenizer joins with the first one, as for questions and answers. */
  readonly pair?: string;
  /** Whether tokens such as [CLS] and <s> are put where the tokenizer has them. Default: true. */
  readonly addSpecialTokens?: boolean;
  /** The most tokens, special ones included. What is more is cut off. Default: any number. */
  readonly maxLength?: number;
  /** The end at which a text is cut. Default: right. */
  readonly truncationSide?: TruncationSide;
}

/** A text as tokens. The three lists have the same length. */
export interface Encoding {
  readonly inputIds: readonly number[];
  /** 1 for each token. Batches have 0 where they are padded. */
  readonly attentionMask: readonly number[];
  /** Which text of a pair a token belongs to: 0 or 1. */
  readonly tokenTypeIds: readonly number[];
}

export const encodeRules: OptionRules<EncodeOptions> = {
  pair: option.text,
  addSpecialTokens: option.flag,
  maxLength: option.integer(1),
  truncationSide: option.oneOf('left', 'right'),
};
