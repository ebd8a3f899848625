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
  /** Of a group whose transport is that of a library with collectives. */
  readonly native?: NativeCollectives | undefined;
}

/** One way to carry out an operation. */
export interface Algorithm {
  readonly operation: Operation;
  /** Unique within the operation. */
  readonly name: string;
  /** Whether floats are added in the order of the ranks, which gives the same bits as all others that do. */
  readonly rankOrder: boolean;
  /** Whether it may run before the ranks have agreed, and then awaits that before it writes. */
  readonly beginsEarly: boolean;
  readonly cost: Cost;
  /** `hosts` as in a Communicator; `isNative`: whether there are native collectives. */
  readonly supports: (hosts: readonly (readonly number[])[], isNative: boolean) => boolean;
  /** Carries out a call that all ranks have made. */
  readonly run: (communicator: Communicator, call: GroupCall, options: RunOptions) => Promise<void>;
}
