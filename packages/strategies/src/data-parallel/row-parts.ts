import { formatShape, LayoutError, type Shape } from '@shardwise/core/extend';

/** Rows of dim 0 that a rank gets: as many as the others, or one more for the first ranks. */
export interface RowPart {
  readonly start: number;
  readonly stop: number;
}

/** Throws LayoutError where there are fewer rows than ranks. */
export function rowParts(shape: Shape, ranks: number): readonly RowPart[] {
  const [rows = 0] = shape;
  if (rows < ranks) {
    throw new LayoutError(
      {
        asked: `to share out a batch of shape ${formatShape(shape)} among ${ranks} ranks`,
        found: `${rows} rows in dim 0`,
        todo: 'Use a batch of at least one row for each rank',
      },
      { shape, ranks },
    );
  }
  const least = Math.floor(rows / ranks);
  const larger = rows % ranks;
  return Array.from({ length: ranks }, (_, rank) => {
    const start = rank * least + Math.min(rank, larger);
    return { start, stop: start + least + (rank < larger ? 1 : 0) };
  });
}

/**
 * The same parts of an output, which has as many rows for each row of the batch, say T for
 * [B * T, C]. Throws LayoutError where this rank's rows are no such multiple.
 */
export function outputParts(
  shape: Shape,
  batch: readonly RowPart[],
  rank: number,
): readonly RowPart[] {
  const [rows = 0] = shape;
  const { start, stop } = batch[rank] ?? { start: 0, stop: 1 };
  const each = rows / (stop - start);
  if (Number.isInteger(each)) {
    return batch.map((part) => ({ start: part.start * each, stop: part.stop * each }));
  }
  throw new LayoutError(
    {
      asked: `to gather outputs of shape ${formatShape(shape)} along dim 0`,
      found: `${rows} rows of a batch of ${stop - start}`,
      todo: 'Return a scalar, or the same number of rows for each row of the batch',
    },
    { shape, batchRows: stop - start },
  );
}
