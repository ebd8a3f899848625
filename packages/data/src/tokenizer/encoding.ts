import { option, type OptionRules } from '@shardwise/core/extend';
import type { Offsets } from './aligned-text.ts';
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
  /** Whether the places of the tokens are returned, which takes several times as long. Default: false. */
  readonly returnOffsetsMapping?: boolean;
}

/** A text as tokens. The lists have the same length. */
export interface Encoding {
  readonly inputIds: readonly number[];
  /** 1 for each token. Batches have 0 where they are padded. */
  readonly attentionMask: readonly number[];
  /** Which text of a pair a token belongs to: 0 or 1. */
  readonly tokenTypeIds: readonly number[];
  /**
   * Where each token is in its text, or in the pair: `text.slice(start, end)`. Special tokens are at [0, 0]. Only with
   * `returnOffsetsMapping`. Python counts characters where this counts UTF-16 units.
   */
  readonly offsetMapping?: readonly Offsets[];
  /** The text of a pair that a token is of: 0 or 1, and undefined for special tokens. Only with `returnOffsetsMapping`. */
  readonly sequenceIds?: readonly (0 | 1 | undefined)[];
}

export const encodeRules: OptionRules<EncodeOptions> = {
  pair: option.text,
  addSpecialTokens: option.flag,
  maxLength: option.integer(1),
  truncationSide: option.oneOf('left', 'right'),
  returnOffsetsMapping: option.flag,
};
