import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import { partialDTypes } from '../reduce/reduce-elements.ts';
import type { Reducer } from '../reduce/reducer.ts';

/** What a reducing algorithm does with the values that meet. */
export interface Reduction {
  readonly dtype: DType;
  readonly op: ReduceOp;
  readonly reducer: Reducer;
}

/** Reduces the values of all ranks, in their order. */
export function reduceAll(
  { dtype, op, reducer }: Reduction,
  sources: readonly Uint8Array[],
  destination: Uint8Array,
): void {
  reducer.reduce(sources, destination, dtype, op);
}

/** Bytes that values take while only some of the ranks are added. */
export function partialBytes(dtype: DType, byteLength: number): number {
  return (byteLength / dtypes[dtype].bytes) * dtypes[partialDTypes[dtype]].bytes;
}

/** One rank's values as a partial sum: themselves, where that changes nothing, or memory of the reducer. */
export function asPartial({ dtype, op, reducer }: Reduction, bytes: Uint8Array): Uint8Array {
  if (partialDTypes[dtype] === dtype && typeof op === 'string') return bytes;
  const partial = reducer.borrow(partialBytes(dtype, bytes.byteLength));
  const fold = { partial: undefined, sources: [bytes], dtype, op, total: undefined };
  reducer.fold(fold, partial);
  return partial;
}

/** Adds partial sums of different ranks into the first. */
export function addPartials(
  { dtype, op, reducer }: Reduction,
  into: Uint8Array,
  other: Uint8Array,
): void {
  // What is multiplied has been, and what is divided will be.
  const combine = typeof op === 'object' ? 'sum' : op;
  const partialDType = partialDTypes[dtype];
  const fold = { dtype: partialDType, op: combine, total: undefined };
  reducer.fold({ ...fold, partial: into, sources: [other] }, into);
}
