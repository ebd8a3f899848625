import { option, type OptionRules } from '@shardwise/core/extend';

/** The sizes of the attention of a pass, from which follows what ranks that cut sequences send and keep. */
export interface AttentionSizes {
  /** The number of layers with attention. */
  readonly layers: number;
  /** The number of rows of a rank's batch. */
  readonly rows: number;
  /** The number of tokens of whole rows. */
  readonly tokens: number;
  readonly heads: number;
  /** The number of heads of keys and values. Default: as many as heads. */
  readonly keyHeads?: number;
  /** The width of a head. */
  readonly headWidth: number;
  /** The dtype of queries, keys and values. Default: f32. */
  readonly dtype?: 'f32' | 'bf16' | 'f16';
}

export const attentionSizesRules: OptionRules<AttentionSizes> = {
  layers: option.required(option.integer(1)),
  rows: option.required(option.integer(1)),
  tokens: option.required(option.integer(1)),
  heads: option.required(option.integer(1)),
  keyHeads: option.integer(1),
  headWidth: option.required(option.integer(1)),
  dtype: option.oneOf('f32', 'bf16', 'f16'),
};
