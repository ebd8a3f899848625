import { dtypes } from '@shardwise/core/spec';
import type { Communicator } from '../../algorithms/communicator.ts';
import type { Cost } from '../../algorithms/cost.ts';
import type { ByteSplits } from '../../algorithms/pairwise-all-to-all.ts';
import type { Reduction } from '../../algorithms/partial-sums.ts';
import type { GroupCall } from '../../call/calls.ts';
import type { Operation } from '../../call/record.ts';
import type { NativeCollectives } from './native-groups.ts';
import type { Reducer } from '../../reduce/reducer.ts';

/** What a group has beside its messages for carrying out a call. */
export interface RunOptions {
  readonly reducer: Reducer;
  /** Settles when all ranks are known to have made the call. */
  readonly agreed: Promise<void>;
  /** The group's native collectives, if its transport belongs to a library that has some. */
  readonly native?: NativeCollectives | undefined;
}

/** One way to carry out an operation. */
export interface Algorithm {
  readonly operation: Operation;
  /** The name is unique within the operation. */
  readonly name: string;
  /** Whether floats are added in rank order. All algorithms that do this give the same bits. */
  readonly rankOrder: boolean;
  /** Whether the algorithm may begin before the ranks have agreed. It then awaits `agreed` before it writes. */
  readonly beginsEarly: boolean;
  readonly cost: Cost;
  /**
   * Whether a group can use the algorithm. `hosts` are as in Communicator, `isNative` says whether the group
   * has native collectives.
   */
  readonly supports: (hosts: readonly (readonly number[])[], isNative: boolean) => boolean;
  /** Carries out a call that all ranks have made. */
  readonly run: (communicator: Communicator, call: GroupCall, options: RunOptions) => Promise<void>;
}

// What a call's record holds for the algorithms that need it.

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
