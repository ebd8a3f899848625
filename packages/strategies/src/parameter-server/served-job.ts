import type { Shape } from '@shardwise/core/extend';
import type { ConsistencyRule } from './consistency.ts';

/** A parameter as the servers know it; its dtype is f32. */
export interface ServedParameter {
  readonly name: string;
  readonly shape: Shape;
}

/** How to update: an optimizer of the table of the server, and the settings of this step. */
export interface UpdateRecipe {
  readonly optimizer: string;
  /** Which parameters of the server's are in each group, by their place, and the group's settings. */
  readonly groups: readonly {
    readonly params: readonly number[];
    readonly settings: Readonly<Record<string, unknown>>;
  }[];
}

/** What all workers of a job say alike. */
export interface ServedJob {
  /** How many workers there are; each has a number below it. */
  readonly workers: number;
  readonly consistency: ConsistencyRule;
  /** The parameters of this server's range. */
  readonly parameters: readonly ServedParameter[];
}
