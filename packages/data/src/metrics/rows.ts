import {
  elementCount,
  formatShape,
  type NDArray,
  ShapeError,
  Tensor,
} from '@shardwise/core/extend';

/** Values of rows: a tensor, which is computed, or an array. */
export type RowValues = Tensor | NDArray;

/** Values on the host. */
export interface HostRows {
  readonly values: ArrayLike<number | bigint>;
  readonly shape: readonly number[];
}

/** Reads values. Shape: [rows, ..] -> the same. */
export async function readRows(values: RowValues): Promise<HostRows> {
  const { shape } = values;
  return { values: values instanceof Tensor ? await values.data() : values.data, shape };
}

/**
 * The class of each label: predictions of the shape of the labels are classes, and those with one dim more are scores,
 * of which the highest is taken. Throws ShapeError for any other shape. Shape: predictions [.., C] or [..], labels [..].
 */
export function classesOf(
  { values, shape }: HostRows,
  labels: HostRows,
): ArrayLike<number | bigint> {
  if (shape.join() === labels.shape.join()) return values;
  const classes = shape.at(-1) ?? 0;
  if (shape.slice(0, -1).join() !== labels.shape.join() || classes === 0)
    throw unfit(shape, labels);
  return Array.from({ length: elementCount(labels.shape) }, (_, row) => {
    let best = 0;
    for (let i = 1; i < classes; i++) {
      if (Number(values[row * classes + i]) > Number(values[row * classes + best])) best = i;
    }
    return best;
  });
}

/** Throws ShapeError for shapes that differ. */
export function requireSameShape(first: HostRows, second: HostRows): void {
  if (first.shape.join() !== second.shape.join()) throw unfit(first.shape, second);
}

/** The number of rows. Throws ShapeError for values without rows. */
export function rowCount({ shape }: HostRows): number {
  const [rows] = shape;
  if (rows !== undefined) return rows;
  throw new ShapeError({
    asked: 'a metric of rows',
    found: 'one value for the whole batch, of which nobody knows which rows are repeats',
    todo: "Give a value for each row, as functional.crossEntropy(logits, labels, { reduction: 'none' })",
  });
}

function unfit(shape: readonly number[], { shape: labels }: HostRows): ShapeError {
  return new ShapeError(
    {
      asked: `a metric of values ${formatShape(shape)}`,
      found: `labels or weights ${formatShape(labels)}`,
      todo: 'Give one value for each label, or scores with one more dim, the number of classes',
    },
    { shape, labels },
  );
}
