import type { ArrayTree } from '../tensor/nd-array.ts';

/**
 * A stream: items that come one after another, and whose number is unknown. Each iteration must start from the
 * beginning: use an object with `*[Symbol.iterator]()` or `async *[Symbol.asyncIterator]()`, and not the result of a
 * generator function, which can be read only once. Every rank iterates over its own object, so give each rank a
 * different part, for example every size-th item from its rank on.
 */
export type IterableDataset<Sample extends ArrayTree = ArrayTree> = (
  | Iterable<Sample>
  | AsyncIterable<Sample>
) & {
  /** If this method exists, it is called before each iteration, so that another epoch can have another order. */
  setEpoch?(epoch: number): void;
};

/** Whether a value is a stream. A value with a length or a size, such as an array, is not. */
export function isIterableDataset(value: unknown): value is IterableDataset {
  if (typeof value !== 'object' || value === null || 'length' in value || 'size' in value) {
    return false;
  }
  return Symbol.asyncIterator in value || Symbol.iterator in value;
}
