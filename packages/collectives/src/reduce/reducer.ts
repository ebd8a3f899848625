import type { DType, ReduceOp } from '@shardwise/core/spec';
import { foldElements, reduceElements, type Fold } from './reduce-elements.ts';

/**
 * The usual length of a fragment in bytes. Algorithms send long messages in fragments, so that they can use one
 * while the next one is on its way. Reducers lend memory for them.
 */
export const FRAGMENT_BYTES: number = 1 << 20;

/** Reduces values for one rank, and lends it memory in which this is fast. */
export interface Reducer {
  /** Lends memory for values that are received only to be reduced. What it contains is undefined. */
  borrow(byteLength: number): Uint8Array;
  giveBack(bytes: Uint8Array): void;
  /**
   * Reduces in the order of `sources`, as reduceElements does. The destination may be one of the sources.
   * Sources in lent memory may lose their values.
   */
  reduce(sources: readonly Uint8Array[], destination: Uint8Array, dtype: DType, op: ReduceOp): void;
  /**
   * Carries out a fold, as foldElements does. The destination may be the fold's partial or one of its sources.
   */
  fold(fold: Fold, destination: Uint8Array): void;
}

/** Reduces in JavaScript, and lends memory on the heap. */
export const plainReducer: Reducer = {
  borrow: (byteLength) => new Uint8Array(byteLength),
  giveBack: () => {},
  reduce: (sources, destination, dtype, op) => reduceElements(sources, [destination], dtype, op),
  fold: (fold, destination) => foldElements(fold, [destination]),
};
