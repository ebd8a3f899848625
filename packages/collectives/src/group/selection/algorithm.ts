import type { Communicator } from '../../algorithms/communicator.ts';
import type { Cost } from '../../algorithms/cost.ts';
import type { GroupCall } from '../../call/calls.ts';
import type { Operation } from '../../call/record.ts';
import type { NativeCollectives } from '../native-groups.ts';
import type { Reducer } from '../../reduce/reducer.ts';

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
