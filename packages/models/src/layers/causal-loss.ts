import { concat, full, functional, type Tensor } from '@shardwise/core/extend';
import type { ForwardCall } from '../model/forward-call.ts';
import { isDocumentStart } from './positions.ts';

/**
 * The mean cross-entropy of the next token. Labels of -100 are ignored, and so is the first token of a document, which
 * the last token of the one before it cannot know. Shape: logits [B, T, V], labels i32 [B, T] -> [].
 */
export function causalLoss(logits: Tensor, labels: Tensor, call: ForwardCall): Tensor {
  return functional.crossEntropy(logits, nextLabels(labels, call));
}

/** The label of the token after each one. -100 where there is none. Shape: labels i32 [B, T] -> [B, T]. */
export function nextLabels(labels: Tensor, { documents }: ForwardCall): Tensor {
  const [rows = 0, length = 0] = labels.shape;
  const own = documents === undefined ? labels : isDocumentStart(documents).where(-100, labels);
  return concat([own.slice(1, 1, length), full([rows, 1], -100, 'i32')], 1);
}
