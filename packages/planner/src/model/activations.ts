import type { TransformerDescription } from './transformer.ts';

/**
 * What the backward pass computes again. `offload`: nothing, but the activations are in the memory of the host until it needs
 * them.
 */
export type Recompute = 'none' | 'selective' | 'full' | 'offload';

/** The part of a batch that a rank computes at once, and how its layers are divided. */
export interface ActivationShape {
  /** The rows of a microbatch. */
  readonly rows: number;
  readonly sequence: number;
  /** The ranks that divide each layer. */
  readonly tensorParallel: number;
  /** Whether these ranks also divide what is between the products. */
  readonly sequenceParallel: boolean;
  /** The ranks that divide the sequence. */
  readonly contextParallel: number;
  readonly recompute: Recompute;
  /** Whether attention is computed by blocks, so that its scores are not kept. */
  readonly flashAttention: boolean;
  /** The bytes of an element. */
  readonly elementBytes: number;
}

/**
 * The bytes that one layer keeps for the backward pass of a microbatch on one rank: in 16 bits, those of Korthikanti
 * et al. 2022 ("Reducing activation recomputation", table 2) for their layers, sbh(10 + 24/t + 5as/(ht)), and the same
 * sum for layers with fewer heads of keys, a gate, or without dropout. `selective` computes the scores of attention
 * again, and `full` the whole layer but its input.
 */
export function layerActivationBytes(
  model: TransformerDescription,
  shape: ActivationShape,
): number {
  const { elementBytes, tensorParallel, contextParallel } = shape;
  const { hidden, headSize, heads, keyValueHeads, feedForward, gated } = model;
  const tokens = (shape.rows * shape.sequence) / contextParallel;
  const between = shape.sequenceParallel ? tensorParallel : 1;
  if (shape.recompute === 'offload') return 0;
  if (shape.recompute === 'full') return (elementBytes * tokens * hidden) / between;
  // The inputs of two norms and of two products, and the masks of dropout, of one byte each.
  const masks = model.dropout ? 2 : 0;
  const outside = tokens * hidden * (4 * elementBytes + masks);
  const active = model.experts?.active ?? 1;
  const inner = (gated ? 4 : 2) * feedForward * active;
  const inside = tokens * elementBytes * (2 * headSize * (heads + keyValueHeads) + inner);
  const keepsScores = shape.recompute === 'none' && !shape.flashAttention;
  const scores = keepsScores
    ? tokens * shape.sequence * heads * ((model.dropout ? 2 : 1) * elementBytes + masks / 2)
    : 0;
  return outside / between + (inside + scores) / tensorParallel;
}

/** The bytes of the logits, in the precision of products and in f32, and of their gradient in f32. */
export function logitBytes(
  { vocabulary }: TransformerDescription,
  { rows, sequence, tensorParallel, contextParallel, elementBytes }: ActivationShape,
): number {
  return ((elementBytes + 8) * rows * sequence * vocabulary) / (tensorParallel * contextParallel);
}

/**
 * How many layers' worth of activations the first stage of a pipeline keeps, as a multiple of the layers of the whole
 * model: 1 for `1f1b`, more with several stages per rank (Korthikanti et al. 2022, section 4.2.3).
 */
export function firstStageShare(stages: number, stagesPerRank: number): number {
  return stagesPerRank === 1 ? 1 : 1 + (stages - 1) / (stages * stagesPerRank);
}
