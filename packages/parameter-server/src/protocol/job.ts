import { refusal } from './refusal.ts';
import type { Shape } from '@shardwise/core/extend';
import type { ConsistencyRule } from './consistency.ts';

/** A parameter as servers know it. Its dtype is always f32. */
export interface ServedParameter {
  readonly name: string;
  readonly shape: Shape;
}

/** How to update: the name of an optimizer in the server's table, and the settings of this step. */
export interface UpdateRecipe {
  readonly optimizer: string;
  /** The settings of each group, and the places of its parameters among those of the server. */
  readonly groups: readonly {
    readonly params: readonly number[];
    readonly settings: Readonly<Record<string, unknown>>;
  }[];
}

/** The description of a job, which must be the same for all its workers. */
export interface ServedJob {
  /** The number of workers. They are numbered from 0. */
  readonly workers: number;
  readonly consistency: ConsistencyRule;
  /** The parameters of this server's range. */
  readonly parameters: readonly ServedParameter[];
}

/** Throws RefusedError for a recipe that does not give each parameter at most one optimizer. */
export function requireRecipe(recipe: UpdateRecipe | null, parameters: number): UpdateRecipe {
  const places = recipe?.groups.flatMap(({ params }) => params) ?? [];
  const isSound =
    places.every((index) => index < parameters) && new Set(places).size === places.length;
  if (recipe !== null && isSound) return recipe;
  throw refusal(
    'malformed',
    'a push of gradients',
    'it does not say by which optimizer each parameter is updated',
    'Send what this version of Shardwise sends',
  );
}

/** Returns both texts around the first place at which two jobs differ. */
export function firstDifference(own: string, given: string): string {
  let at = 0;
  while (at < own.length && own[at] === given[at]) at++;
  const from = Math.max(0, at - 20);
  return `${own.slice(from, at + 40)} there, ${given.slice(from, at + 40)} here`;
}
