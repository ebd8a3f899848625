import {
  arange,
  concat,
  ConfigError,
  formatShape,
  full,
  requireTensors,
  ShapeError,
  type Tensor,
  zeros,
} from '@shardwise/core/extend';
import type { ForwardCall } from '../model/forward-call.ts';

/**
 * The place of each token in its sequence: those of the call, or 0, 1, … from the start of the row or of its document.
 * Throws ConfigError for a cache without them, and as requireTokens does. Shape: inputIds [B, T] -> i32 [B, T], or [1, T] if all rows have the same.
 */
export function positionsOf(
  inputIds: Tensor,
  { positionIds, documents, cache }: ForwardCall,
): Tensor {
  requireTokens('the forward pass of a decoder', inputIds);
  if (positionIds !== undefined) return positionIds;
  if (cache !== undefined) throw withoutPositions();
  const [, length = 0] = inputIds.shape;
  const places = arange(length).reshape([1, length]);
  return documents === undefined ? places : places.sub(documentBounds(documents).starts);
}

/** Throws DTypeError for tokens that are no tensor, and ShapeError for tokens that are not [B, T]. */
export function requireTokens(asked: string, inputIds: Tensor): void {
  requireTensors(asked, { inputIds });
  const { shape } = inputIds;
  if (shape.length === 2) return;
  throw new ShapeError(
    {
      asked: `${asked} with inputIds of shape ${formatShape(shape)}`,
      found: `${shape.length} dims, and tokens are rows: [B, T]`,
      todo: "For one row, write tensor([ids], 'i32'), or inputIds.unsqueeze(0)",
    },
    { shape },
  );
}

/** Whether a token is the first one of its document. Shape: documents i32 [B, T] -> bool [B, T]. */
export function isDocumentStart(documents: Tensor): Tensor {
  const [rows = 0, length = 0] = documents.shape;
  const isOther = documents.slice(1, 1, length).ne(documents.slice(1, 0, length - 1));
  return concat([full([rows, 1], 1, 'bool'), isOther], 1);
}

/**
 * The place in its row of the first token of each token's document, and of the token behind its last one.
 * Shape: documents i32 [B, T] -> starts, ends i32 [B, T].
 */
export function documentBounds(documents: Tensor): {
  readonly starts: Tensor;
  readonly ends: Tensor;
} {
  const { shape } = documents;
  const [, length = 0] = shape;
  const isStart = isDocumentStart(documents);
  const places = arange(length).reshape([1, length]).expand(shape);
  // The number of each token's document in its row, and what is summed for each number.
  const numbers = isStart.to('i32').cumsum(1).sub(1);
  const sums = (of: Tensor): Tensor =>
    zeros(shape, 'i32').scatterAdd(1, numbers, of).gather(1, numbers);
  const starts = sums(isStart.where(places, 0));
  return { starts, ends: starts.add(sums(full(shape, 1, 'i32'))) };
}

function withoutPositions(): ConfigError {
  return new ConfigError({
    asked: 'a forward pass with a cache',
    found: 'no positionIds, and the model does not know how many tokens the cache has',
    todo: 'Pass the place of each token in its sequence',
  });
}
