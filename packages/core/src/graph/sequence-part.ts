import type { AttentionParams } from '../spec/op.ts';
import type { Node } from './node.ts';

/** What is asked of `scaledDotProductAttention`, as its op takes it. The dtype is that of autocast, if there is one. */
export interface AttentionRequest {
  readonly q: Node;
  readonly k: Node;
  readonly v: Node;
  /** Added to the scores. Shape: [B|1, H|1, T|1, S]. */
  readonly mask: Node | undefined;
  /** Shape: i32 [B|1, T, 2]. */
  readonly ranges: Node | undefined;
  readonly params: AttentionParams;
  readonly dropout: number;
}

/**
 * A forward pass whose tokens are a part of a longer sequence, of which other ranks have the other parts. What a token
 * cannot compute by itself is asked here.
 */
export interface SequencePart {
  /**
   * Attention to the keys of all parts. `compute` computes a request on this rank alone.
   * Shape: q [B, H, T, D], k [B, G, T, D], v [B, G, T, E] -> [B, H, T, E].
   */
  attend(request: AttentionRequest, compute: (request: AttentionRequest) => Node): Node;
  /** Collects a dim of tokens from all parts, in the order of the sequence, padding last. Shape: [.., T, ..] -> [.., places, ..]. */
  gather(x: Node, dim: number): Node;
  /** Sums what each part has, such as a number of tokens. It has no gradient. Shape: x -> the same. */
  sum(x: Node): Node;
  /** The places of this rank's tokens, if `arange(length)` counts them. Null: it does not. Shape: -> i32 [length]. */
  places(length: number): Node | null;
}
