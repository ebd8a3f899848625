import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import { partialDTypes } from '../reduce/reduce-elements.ts';
import type { Reducer } from '../reduce/reducer.ts';

/** How values of several ranks are combined. */
export interface Reduction {
  readonly dtype: DType;
  readonly op: ReduceOp;
  readonly reducer: Reducer;
}

/** Reduces the values of all ranks, in rank order. */
export function reduceAll(
  { dtype, op, reducer }: Reduction,
  sources: readonly Uint8Array[],
  destination: Uint8Array,
): void {
  reducer.reduce(sources, destination, dtype, op);
}

/** The length in bytes of a partial sum, which may have a wider dtype than the values. */
export function partialBytes(dtype: DType, byteLength: number): number {
  return (byteLength / dtypes[dtype].bytes) * dtypes[partialDTypes[dtype]].bytes;
}

/**
 * One rank's values as a partial sum. Returns the values themselves if the partial sum would be equal to them.
 * Otherwise the partial sum is in memory of the reducer.
 */
export function asPartial({ dtype, op, reducer }: Reduction, bytes: Uint8Array): Uint8Array {
  if (partialDTypes[dtype] === dtype && typeof op === 'string') return bytes;
  const partial = reducer.borrow(partialBytes(dtype, bytes.byteLength));
  const fold = { partial: undefined, sources: [bytes], dtype, op, total: undefined };
  reducer.fold(fold, partial);
  return partial;
}

/** Adds the partial sum `other` to the partial sum `into`. They are of different ranks. */
export function addPartials(
  { dtype, op, reducer }: Reduction,
  into: Uint8Array,
  other: Uint8Array,
): void {
  // Values were multiplied by their factor when they became a partial sum, and an average is divided at the end.
  const combine = typeof op === 'object' ? 'sum' : op;
  const partialDType = partialDTypes[dtype];
  const fold = { dtype: partialDType, op: combine, total: undefined };
  reducer.fold({ ...fold, partial: into, sources: [other] }, into);
}
