import type { Action } from './action.ts';
import { formatAction } from './action-text.ts';
import { computationsOf, type LoweredSchedule } from './schedule.ts';

/** Called with the fault of an action of a rank. */
type Fail = (position: number, action: Action, found: string, todo: string) => never;

/**
 * Checks the actions on whole stages. If a rank gathers parameters at all, they must be there when they are used.
 * Gradients must be reduced once, after the last action that adds to them.
 */
export function checkStageActions(lowered: LoweredSchedule, rank: number, fail: Fail): void {
  const actions = lowered.actions[rank] ?? [];
  const gathers = actions.some(({ kind }) => kind === 'unshard' || kind === 'reshard');
  const active = new Set<number>();
  const reduced = new Set<number>();
  for (const [position, action] of actions.entries()) {
    for (const { kind, stage } of computationsOf(action)) {
      if (gathers && !active.has(stage)) {
        const text = formatAction({ kind: 'unshard', stage });
        fail(
          position,
          action,
          `the parameters of stage ${stage} are not there`,
          `Put ${text} first`,
        );
      }
      if (reduced.has(stage) && kind !== 'forward' && kind !== 'inputGradient') {
        fail(position, action, 'it adds to gradients that were reduced', 'Reduce them behind it');
      }
    }
    if (action.kind === 'unshard') {
      if (active.has(action.stage))
        fail(position, action, 'they are there already', 'Leave it out');
      active.add(action.stage);
    } else if (action.kind === 'reshard') {
      if (!active.delete(action.stage))
        fail(position, action, 'they are not there', 'Leave it out');
    } else if (action.kind === 'reduceGradient') {
      if (reduced.has(action.stage)) fail(position, action, 'it was done before', 'Leave it out');
      reduced.add(action.stage);
    }
  }
}
