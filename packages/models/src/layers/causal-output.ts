import { concat, full, type Tensor } from '@shardwise/core/extend';
import type { ForwardCall } from '../model/forward-call.ts';
import type { LanguageModelHead } from './language-model-head.ts';
import { isDocumentStart } from './positions.ts';

/**
 * Logits of the next token, or the mean cross-entropy if the call has labels. Labels of -100 are ignored, and so is the
 * first token of a document, which the last token of the one before it cannot know.
 * Shape: hidden [B, T, C], labels i32 [B, T] -> [B, T, V], or [].
 */
export function causalOutput(hidden: Tensor, head: LanguageModelHead, call: ForwardCall): Tensor {
  return call.labels === undefined
    ? head.forward(hidden)
    : head.forward(hidden, nextLabels(call.labels, call));
}

/** The number of tokens that count in the loss of a call, or of its rows if it has no labels. */
export function causalLossWeight(inputIds: Tensor, call: ForwardCall = {}): Tensor | number {
  const { labels } = call;
  return labels === undefined
    ? (inputIds.shape[0] ?? 0)
    : nextLabels(labels, call).ne(-100).to('f32').sum();
}

/** The label of the token after each one. -100 where there is none. Shape: labels i32 [B, T] -> [B, T]. */
function nextLabels(labels: Tensor, { documents }: ForwardCall): Tensor {
  const [rows = 0, length = 0] = labels.shape;
  const own = documents === undefined ? labels : isDocumentStart(documents).where(-100, labels);
  return concat([own.slice(1, 1, length), full([rows, 1], -100, 'i32')], 1);
}
