import type { Tensor } from '@shardwise/core/extend';
import type { ForwardCall } from '../model/forward-call.ts';

/**
 * What a forward pass of an encoder may be given beside its tokens. Labels have the places of what they name, and are
 * not shifted: i32 [B, T] of a masked language model and of a classifier of tokens, where -100 does not count, and one
 * for each row of a classifier of rows.
 */
export interface EncoderCall extends Omit<ForwardCall, 'logitsToKeep'> {
  /** The segment of each token. Shape: i32 [B, T]. Default: all tokens are of segment 0. */
  readonly tokenTypeIds?: Tensor;
}
