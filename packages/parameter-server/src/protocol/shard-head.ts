import type { DType, Shape } from '@shardwise/core/extend';
import type { ServedJob, UpdateRecipe } from './job.ts';

/** The state of a worker that a server saves. */
export interface SavedMember {
  readonly session: number;
  /** The number of the worker's last push that counted. */
  readonly sequence: number;
  /** The version of the values that the worker has read last. */
  readonly read: number;
}

/** The head of a snapshot's optimizer. Its states are among the arrays. */
export interface StoredHead {
  readonly recipe: UpdateRecipe | null;
  readonly states: readonly {
    readonly parameter: string;
    readonly name: string;
    readonly dtype: DType;
    readonly shape: Shape;
  }[];
}

/** The head of a snapshot. */
export interface ShardHead {
  readonly job: ServedJob;
  readonly step: number;
  readonly version: number;
  readonly sessions: number;
  readonly known: readonly number[];
  readonly members: readonly (readonly [worker: number, member: SavedMember])[];
  /** The last push of each worker that has left. */
  readonly left: readonly (readonly [worker: number, sequence: number])[];
  readonly clock: readonly (readonly [worker: number, clock: number])[];
  readonly isInitialised: boolean;
  readonly stored: StoredHead;
  /** The pushes that wait for the others of their step. */
  readonly waiting: readonly {
    readonly worker: number;
    readonly recipe: UpdateRecipe;
    readonly present: readonly boolean[];
  }[];
}
