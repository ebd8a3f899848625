import { functional, type Tensor } from '@shardwise/core/extend';
import type { ForwardCall } from '../model/forward-call.ts';

/** The labels of a loss, and over how many of them it is a mean. */
export interface CountedLabels {
  /** Shape: i32 [B, T]. -100 does not count. */
  readonly labels?: Tensor;
  /** Default: the number of labels that count. Shape: f32 []. */
  readonly labelCount?: Tensor;
}

/** The labels of a call whose tokens have labels of their own: those of whole rows, or of parts. */
export function labelsOf({ labels, rowPart }: ForwardCall): CountedLabels {
  if (rowPart !== undefined) return rowPart;
  return labels === undefined ? {} : { labels };
}

/** The mean cross-entropy of the labels of tokens. Null if there are none. Shape: logits [B, T, L] -> []. */
export function tokenLoss(logits: Tensor, call: ForwardCall): Tensor | null {
  const { labels, labelCount } = labelsOf(call);
  if (labels === undefined) return null;
  if (labelCount === undefined) return functional.crossEntropy(logits, labels);
  return functional.crossEntropy(logits, labels, { reduction: 'sum' }).div(labelCount);
}
