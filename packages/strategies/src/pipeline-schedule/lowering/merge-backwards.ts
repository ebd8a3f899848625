import type { ScheduledAction } from '../action.ts';

/**
 * Input gradients with their weight gradients directly behind them become whole backwards, which cost less, of those
 * stages that `mayMerge` says.
 */
export function mergeBackwards(
  actions: readonly ScheduledAction[],
  mayMerge: (stage: number) => boolean,
): ScheduledAction[] {
  const merged: ScheduledAction[] = [];
  for (const action of actions) {
    const last = merged.at(-1);
    const isSecondHalf =
      action.kind === 'weightGradient' &&
      last?.kind === 'inputGradient' &&
      last.stage === action.stage &&
      last.microbatch === action.microbatch &&
      mayMerge(action.stage);
    if (isSecondHalf) merged[merged.length - 1] = { ...action, kind: 'backward' };
    else merged.push(action);
  }
  return merged;
}
