import { dtypes } from '@shardwise/core/spec';
import type { ByteSplits } from '../../algorithms/pairwise-all-to-all.ts';
import type { Reduction } from '../../algorithms/partial-sums.ts';
import type { GroupCall } from '../../call/calls.ts';
import type { Reducer } from '../../reduce/reducer.ts';
import type { NativeCollectives } from '../native-groups.ts';
import type { RunOptions } from './algorithm.ts';

export function reductionOf(
  { record }: GroupCall,
  { reducer }: { readonly reducer: Reducer },
): Reduction {
  const { dtype, reduce } = record;
  if (dtype !== undefined && reduce !== undefined) return { dtype, op: reduce, reducer };
  throw new TypeError(`${record.operation} without a dtype or a reduction`);
}

export function rootOf({ record }: GroupCall): number {
  if (record.root !== undefined) return record.root;
  throw new TypeError(`${record.operation} without a root`);
}

export function nativeOf({ native }: RunOptions): NativeCollectives {
  if (native !== undefined) return native;
  throw new TypeError('A native algorithm of a group that has none');
}

/** The memory that root gives, and into which the other ranks receive. */
export function rootBufferOf({ rank }: { readonly rank: number }, call: GroupCall): Uint8Array {
  return rank === rootOf(call) ? call.input : call.output;
}

export function byteSplitsOf({ record: { splits, dtype } }: GroupCall): ByteSplits {
  const elementBytes = dtype === undefined ? 1 : dtypes[dtype].bytes;
  const inBytes = (elements: readonly number[]): number[] =>
    elements.map((count) => count * elementBytes);
  return { input: inBytes(splits?.input ?? []), output: inBytes(splits?.output ?? []) };
}
