import type { ScheduledAction, StageAction } from '../action.ts';
import { computationsOf } from '../schedule.ts';

/** Puts the reduction of a stage's gradients right after the last action that adds to them. */
export function addReductions(
  actions: readonly (ScheduledAction | StageAction)[],
  microbatches: number,
): (ScheduledAction | StageAction)[] {
  const done = new Map<number, number>();
  return actions.flatMap((action) => {
    const complete = computationsOf(action).flatMap(({ kind, stage }) => {
      if (kind !== 'backward' && kind !== 'weightGradient') return [];
      const count = (done.get(stage) ?? 0) + 1;
      done.set(stage, count);
      return count === microbatches ? [{ kind: 'reduceGradient' as const, stage }] : [];
    });
    return [action, ...complete];
  });
}
