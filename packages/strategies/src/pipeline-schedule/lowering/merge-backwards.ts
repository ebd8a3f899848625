import type { ScheduledAction } from '../action.ts';

/** Input gradients with their weight gradients directly behind them become whole backwards, which cost less. */
export function mergeBackwards(actions: readonly ScheduledAction[]): ScheduledAction[] {
  const merged: ScheduledAction[] = [];
  for (const action of actions) {
    const last = merged.at(-1);
    const isSecondHalf =
      action.kind === 'weightGradient' &&
      last?.kind === 'inputGradient' &&
      last.stage === action.stage &&
      last.microbatch === action.microbatch;
    if (isSecondHalf) merged[merged.length - 1] = { ...action, kind: 'backward' };
    else merged.push(action);
  }
  return merged;
}
