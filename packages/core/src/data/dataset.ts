import { DataError } from '../spec/errors.ts';
import type { ArrayTree } from '../tensor/nd-array.ts';

/** A list of items that are read by their index. */
export interface Dataset<Sample extends ArrayTree = ArrayTree> {
  readonly length: number;
  /** The item at an index in [0, length). It must be the same each time. */
  get(index: number): Sample | Promise<Sample>;
}

/** Throws DataError if a dataset of `length` items has no item `index`. */
export function checkIndex(index: number, length: number): void {
  if (Number.isInteger(index) && index >= 0 && index < length) return;
  throw new DataError(
    {
      asked: `item ${index} of a dataset`,
      found: `${length} items`,
      todo: length === 0 ? 'Use a dataset with items' : `Use an index in [0, ${length - 1}]`,
    },
    { index, length },
  );
}
