import type { Shape } from '@shardwise/core/extend';
import type { ConsistencyRule } from './consistency.ts';
import { refusal } from './refusal.ts';

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
  throw refusal('malformed', {
    asked: 'a push of gradients',
    found: 'it does not say by which optimizer each parameter is updated',
    todo: 'Send what this version of Shardwise sends',
  });
}

/**
 * Throws RefusedError if the job of a worker that joins is not that of the others, or has no such worker. The first
 * worker of a run that resumes from a snapshot may have other workers and another consistency, but not other parameters.
 */
export function requireJob(
  worker: number,
  given: ServedJob,
  known: ServedJob,
  isFirst: boolean,
): void {
  const asked = `worker ${worker} joins`;
  const [a, b] = [known, given].map((job) => JSON.stringify(isFirst ? job.parameters : job));
  if (a !== b) {
    throw refusal('other-model', {
      asked,
      found: `its job differs from that of the workers before: ${firstDifference(a, b)}`,
      todo: 'Start every worker with the same model and the same consistency',
    });
  }
  if (worker < given.workers) return;
  throw refusal('malformed', {
    asked,
    found: `the job has workers 0 to ${given.workers - 1}`,
    todo: 'Give each worker a number of its own',
  });
}

/** Returns both texts around the first place at which two jobs differ. */
function firstDifference(own = '', given = ''): string {
  let at = 0;
  while (at < own.length && own[at] === given[at]) at++;
  const from = Math.max(0, at - 20);
  return `${own.slice(from, at + 40)} there, ${given.slice(from, at + 40)} here`;
}
