import type { ScheduledAction } from '../action.ts';

/**
 * Replaces an input gradient and the weight gradient right after it by one backward, which costs less. Only stages for
 * which `mayMerge` returns true are changed.
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
