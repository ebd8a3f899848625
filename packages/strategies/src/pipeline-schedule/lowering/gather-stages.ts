import type { ScheduledAction, StageAction } from '../actions/action.ts';
import { computationsOf } from '../actions/schedule.ts';

/**
 * Gathers the parameters of the next `activeStages` stages that a rank uses, and drops those of others. A pair needs
 * both of its stages, so one more stage may be active if the pair comes last in the window.
 */
export function gatherStages(
  actions: readonly ScheduledAction[],
  activeStages: number,
): (ScheduledAction | StageAction)[] {
  const gathered: (ScheduledAction | StageAction)[] = [];
  const active = new Set<number>();
  for (const [position, action] of actions.entries()) {
    const window = nextStages(actions, position, activeStages);
    for (const stage of active) {
      if (window.has(stage)) continue;
      active.delete(stage);
      gathered.push({ kind: 'reshard', stage });
    }
    for (const stage of window) {
      if (active.has(stage)) continue;
      active.add(stage);
      gathered.push({ kind: 'unshard', stage });
    }
    gathered.push(action);
  }
  for (const stage of active) gathered.push({ kind: 'reshard', stage });
  return gathered;
}

/** Returns the stages that are used from this position on, in the order of their first use. */
function nextStages(
  actions: readonly ScheduledAction[],
  position: number,
  wanted: number,
): ReadonlySet<number> {
  const next = new Set<number>();
  for (let at = position; at < actions.length && next.size < wanted; at++) {
    const action = actions[at];
    if (action === undefined) break;
    for (const { stage } of computationsOf(action)) next.add(stage);
  }
  return next;
}
