import { concat, ConfigError, full, type Tensor } from '@shardwise/core/extend';
import type { ForwardCall } from '../model/forward-call.ts';
import type { LanguageModelHead } from './language-model-head.ts';
import { isDocumentStart } from './positions.ts';

/**
 * Logits of the next token, or the mean cross-entropy if the call has labels. Labels of -100 are ignored, and so is the
 * first token of a document, which the last token of the one before it cannot know. With logitsToKeep K, only the last K
 * tokens get logits. Shape: hidden [B, T, C], labels i32 [B, T] -> [B, T or K, V], or [].
 */
export function causalOutput(hidden: Tensor, head: LanguageModelHead, call: ForwardCall): Tensor {
  const { labels, logitsToKeep, rowPart } = call;
  if (rowPart?.labels !== undefined) {
    return head.forward(hidden, rowPart.labels, rowPart.labelCount);
  }
  if (logitsToKeep !== undefined) return head.forward(lastTokens(hidden, logitsToKeep, labels));
  return labels === undefined
    ? head.forward(hidden)
    : head.forward(hidden, nextLabels(labels, call));
}

/** Throws ConfigError for a number that is no number of tokens, and beside labels, whose loss needs all tokens. */
function lastTokens(hidden: Tensor, count: number, labels: Tensor | undefined): Tensor {
  const [, length = 0] = hidden.shape;
  if (Number.isInteger(count) && count > 0 && labels === undefined) {
    return hidden.slice(1, Math.max(0, length - count), length);
  }
  throw new ConfigError(
    {
      asked: `the logits of the last ${count} tokens (logitsToKeep)`,
      found: labels === undefined ? 'no number of tokens' : 'labels, whose loss needs all tokens',
      todo: labels === undefined ? 'Use an integer from 1 on' : 'Leave one of them out',
    },
    { logitsToKeep: count },
  );
}

/** The number of tokens that count in the loss of a call, or of its rows if it has no labels. */
export function causalLossWeight(inputIds: Tensor, call: ForwardCall = {}): Tensor | number {
  const { labels } = call;
  return labels === undefined
    ? (inputIds.shape[0] ?? 0)
    : nextLabels(labels, call).ne(-100).to('f32').sum();
}

/** The label of the token after each one. -100 where there is none. Shape: labels i32 [B, T] -> [B, T]. */
export function nextLabels(labels: Tensor, { documents }: Pick<ForwardCall, 'documents'>): Tensor {
  const [rows = 0, length = 0] = labels.shape;
  const own = documents === undefined ? labels : isDocumentStart(documents).where(-100, labels);
  return concat([own.slice(1, 1, length), full([rows, 1], -100, 'i32')], 1);
}
