import { formatShape, LayoutError, type Shape } from '@shardwise/core/extend';

/** The rows of dim 0 that a rank gets. If the ranks do not divide them equally, the first ranks get one more. */
export interface RowPart {
  readonly start: number;
  readonly stop: number;
}

/** Returns the rows of each rank. Throws LayoutError if there are fewer rows than ranks. */
export function rowParts(shape: Shape, ranks: number): readonly RowPart[] {
  const [rows = 0] = shape;
  if (rows < ranks) {
    throw new LayoutError(
      {
        asked: `to divide a batch of shape ${formatShape(shape)} among ${ranks} ranks`,
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
 * Returns the rows of an output that belong to each rank. An output may have several rows for each row of the batch,
 * such as T for [B * T, C]. Throws LayoutError if this rank's rows are not such a multiple.
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
