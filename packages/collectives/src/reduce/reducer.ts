import type { DType, ReduceOp } from '@shardwise/core/spec';
import { foldElements, reduceElements, type Fold } from './reduce-elements.ts';

/** Reduces for one rank, and lends it memory in which that is fast. */
export interface Reducer {
  /** Memory for what is received only to be reduced; its values are undefined. */
  borrow(byteLength: number): Uint8Array;
  giveBack(bytes: Uint8Array): void;
  /**
   * In the order of `sources`, into a destination that may be one of them, as reduceElements does. Sources that
   * were lent may lose their values.
   */
  reduce(sources: readonly Uint8Array[], destination: Uint8Array, dtype: DType, op: ReduceOp): void;
  /** Into a destination that may be the step's partial or one of its sources, as foldElements does. */
  fold(fold: Fold, destination: Uint8Array): void;
}

/** On the heap, for all dtypes alike. */
export const plainReducer: Reducer = {
  borrow: (byteLength) => new Uint8Array(byteLength),
  giveBack: () => {},
  reduce: (sources, destination, dtype, op) => reduceElements(sources, [destination], dtype, op),
  fold: (fold, destination) => foldElements(fold, [destination]),
};
