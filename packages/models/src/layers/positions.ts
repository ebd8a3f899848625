import { arange, concat, ConfigError, full, type Tensor, zeros } from '@shardwise/core/extend';
import type { ForwardCall } from '../model/forward-call.ts';

/**
 * The place of each token in its sequence: those of the call, or 0, 1, … from the start of the row or of its document.
 * Throws ConfigError for a cache without them. Shape: inputIds [B, T] -> i32 [B, T], or [1, T] if all rows have the same.
 */
export function positionsOf(
  inputIds: Tensor,
  { positionIds, documents, cache }: ForwardCall,
): Tensor {
  if (positionIds !== undefined) return positionIds;
  if (cache !== undefined) throw withoutPositions();
  const [, length = 0] = inputIds.shape;
  const places = arange(length).reshape([1, length]);
  return documents === undefined ? places : places.sub(documentStarts(documents));
}

/** Whether a token is the first one of its document. Shape: documents i32 [B, T] -> bool [B, T]. */
export function isDocumentStart(documents: Tensor): Tensor {
  const [rows = 0, length = 0] = documents.shape;
  const isOther = documents.slice(1, 1, length).ne(documents.slice(1, 0, length - 1));
  return concat([full([rows, 1], 1, 'bool'), isOther], 1);
}

/** The place in its row of the first token of each token's document. Shape: documents i32 [B, T] -> i32 [B, T]. */
export function documentStarts(documents: Tensor): Tensor {
  const { shape } = documents;
  const [, length = 0] = shape;
  const starts = isDocumentStart(documents);
  const places = arange(length).reshape([1, length]).expand(shape);
  // The number of each token's document in its row, and a table of where these begin.
  const numbers = starts.to('i32').cumsum(1).sub(1);
  const table = zeros(shape, 'i32').scatterAdd(1, numbers, starts.where(places, 0));
  return table.gather(1, numbers);
}

function withoutPositions(): ConfigError {
  return new ConfigError({
    asked: 'a forward pass with a cache',
    found: 'no positionIds, and the model does not know how many tokens the cache has',
    todo: 'Pass the place of each token in its sequence',
  });
}
