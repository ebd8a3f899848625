import type { Tensor } from '@shardwise/core/extend';

/** How a layer's attention is computed. */
export interface AttentionSettings {
  /** The number of the layer, from 0. A cache has keys and values for each. */
  readonly layer: number;
  /** Whether a query sees only the keys up to its own place. Default: true. */
  readonly causal?: boolean;
  /** The factor of the scores. Default: 1 / sqrt(D). */
  readonly scale?: number;
  /** A query sees only the last `window` keys up to its own place. Default: all. */
  readonly window?: number;
  /** Scores s are bounded by this number c, as c tanh(s / c). Default: they are not. */
  readonly softcap?: number;
  /** The probability with which a weight is dropped. Default: 0. */
  readonly dropout?: number;
}

/** What keeps keys and values of earlier calls. Models call it instead of computing attention themselves. */
export interface AttentionCache {
  /**
   * Attention of new queries to the keys and values that are kept and to the new ones, which it keeps for later calls.
   * Shape: query [B, H, T, D], key [B, G, T, D], value [B, G, T, E] -> [B, H, T, E].
   */
  attend(
    layer: number,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    options: CachedAttentionOptions,
  ): Tensor;
}

/** What a call and a layer say of attention. */
export interface CachedAttentionOptions
  extends
    Omit<AttentionSettings, 'layer'>,
    Pick<ForwardCall, 'attentionMask' | 'documents' | 'rowPart'> {}

/**
 * What the tokens of a call cannot know if they are a part of longer rows, of which other ranks have the rest
 * (`contextParallel`). Letters: T tokens of the part.
 */
export interface RowPart {
  /** The place of each token in its row. Shape: i32 [1, T]. */
  readonly places: Tensor;
  /** The place of the first token of each token's document, and of the token behind its last one. Shape: i32 [B, T]. */
  readonly documents?: { readonly starts: Tensor; readonly ends: Tensor };
  /** The label of what the model computes for each token, -100 where none counts. Shape: i32 [B, T]. */
  readonly labels?: Tensor;
  /** The number of labels that count in the whole rows. Shape: f32 []. */
  readonly labelCount?: Tensor;
}

/** What a forward pass may be given beside its inputs. Letters: B batch, T tokens, S keys, also those of a cache. */
export interface ForwardCall {
  /** 1 or true for tokens, 0 or false for padding, which nothing attends to. Shape: [B, S]. Default: no padding. */
  readonly attentionMask?: Tensor;
  /**
   * The place of each token in its sequence. Required with a cache. Shape: i32 [B, T]. Default: 0, 1, …, from the start
   * of each document.
   */
  readonly positionIds?: Tensor;
  /**
   * Labels, for which the mean loss is returned. Those of a language model have the places of the inputs: the model
   * shifts them itself. -100 is ignored. Shape: i32 [B, T].
   */
  readonly labels?: Tensor;
  /**
   * Documents that are packed into one row: tokens of equal numbers that follow each other are one document, and attend
   * only to each other. Shape: i32 [B, T]. Default: each row is one document.
   */
  readonly documents?: Tensor;
  /**
   * Of how many last tokens of each row a language model returns logits, as generation needs those of one. Not with
   * labels. Default: of all.
   */
  readonly logitsToKeep?: number;
  /** Keeps keys and values between calls. */
  readonly cache?: AttentionCache;
  /** Set by strategies whose ranks have parts of the rows. Default: the call has whole rows. */
  readonly rowPart?: RowPart;
}
