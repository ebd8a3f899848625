import type { DType, Shape } from '@shardwise/core/extend';
import type { ServedJob, UpdateRecipe } from './served-job.ts';

/** What a server knows of a worker. */
export interface SavedMember {
  readonly session: number;
  /** The last push that counted. */
  readonly sequence: number;
  /** The version that the worker has read last. */
  readonly read: number;
}

/** What of an optimizer goes into a snapshot, beside arrays. */
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
  readonly round: number;
  readonly version: number;
  readonly sessions: number;
  readonly known: readonly number[];
  readonly members: readonly (readonly [worker: number, member: SavedMember])[];
  /** The last push of workers that have left. */
  readonly left: readonly (readonly [worker: number, sequence: number])[];
  readonly clock: readonly (readonly [worker: number, clock: number])[];
  readonly isInitialised: boolean;
  readonly stored: StoredHead;
  /** Pushes of the step that is not complete. */
  readonly waiting: readonly {
    readonly worker: number;
    readonly recipe: UpdateRecipe;
    readonly present: readonly boolean[];
  }[];
}
