import type { ArrayTree } from './nd-array.ts';

/**
 * Items that come one after another, in unknown number. Each iteration starts from the beginning: use an object with
 * `*[Symbol.iterator]()` or `async *[Symbol.asyncIterator]()`, and not what a generator function returned, which can
 * be read once. Every rank iterates over its own object, so give each rank a different part, for example every size-th
 * item from its rank on.
 */
export type IterableDataset<Sample extends ArrayTree = ArrayTree> = (
  | Iterable<Sample>
  | AsyncIterable<Sample>
) & {
  /** Is called before each iteration, where it is there: for another order in another epoch. */
  setEpoch?(epoch: number): void;
};

/** What has a length, as an array, is no stream. */
export function isIterableDataset(value: unknown): value is IterableDataset {
  if (typeof value !== 'object' || value === null || 'length' in value || 'size' in value) {
    return false;
  }
  return Symbol.asyncIterator in value || Symbol.iterator in value;
}
