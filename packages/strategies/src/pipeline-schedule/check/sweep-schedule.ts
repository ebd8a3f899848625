import { formatAction } from '../actions/action-text.ts';
import type { ComputeAction, ScheduledAction, StageAction } from '../actions/action.ts';
import { computationsOf, type Schedule } from '../actions/schedule.ts';
import type { BlockedRank } from './blocked-rank.ts';
import {
  type Dependency,
  makesInputGradient,
  needsOf,
  type StageDependencies,
} from './dependencies.ts';

/** A schedule whose ranks may also gather stages and reduce gradients. These actions wait for nothing. */
export interface SweptSchedule extends Omit<Schedule, 'actions'> {
  readonly actions: readonly (readonly (ScheduledAction | StageAction)[])[];
}

/**
 * Visits all actions in an order in which each comes after those that it needs. It goes round the ranks and does one
 * action of each. Returns the ranks that cannot go on, which are none if the schedule can run.
 */
export function sweepSchedule(
  schedule: SweptSchedule,
  dependencies: readonly StageDependencies[],
  visit: (rank: number, action: ScheduledAction | StageAction) => void = () => {},
): BlockedRank[] {
  const { stages, microbatches, actions } = schedule;
  const done = {
    forward: new Uint8Array(stages * microbatches),
    gradient: new Uint8Array(stages * microbatches),
  };
  const missingOf = (computation: ComputeAction): Dependency | undefined =>
    needsOf(computation, dependencies).find(
      ({ of, stage }) => done[of][stage * microbatches + computation.microbatch] !== 1,
    );
  const isReady = (action: ScheduledAction | StageAction): boolean =>
    computationsOf(action).every((each) => missingOf(each) === undefined);
  const positions = actions.map(() => 0);
  let left = actions.reduce((sum, own) => sum + own.length, 0);
  for (let before = -1; left > 0 && before !== left;) {
    before = left;
    for (const [rank, own] of actions.entries()) {
      const action = own[positions[rank] ?? 0];
      if (action === undefined || !isReady(action)) continue;
      for (const { kind, stage, microbatch } of computationsOf(action)) {
        const index = stage * microbatches + microbatch;
        if (kind === 'forward') done.forward[index] = 1;
        else if (makesInputGradient(kind)) done.gradient[index] = 1;
      }
      visit(rank, action);
      positions[rank] = (positions[rank] ?? 0) + 1;
      left--;
    }
  }
  return actions.flatMap((own, rank): BlockedRank[] => {
    const position = positions[rank] ?? 0;
    const action = own[position];
    if (action === undefined) return [];
    for (const computation of computationsOf(action)) {
      const missing = missingOf(computation);
      if (missing === undefined) continue;
      const { stage } = missing;
      const kind =
        missing.of === 'forward' ? 'forward' : gradientKind(schedule, stage, computation);
      return [
        {
          rank,
          position,
          action: formatAction(action),
          waitsFor: formatAction({ kind, stage, microbatch: computation.microbatch }),
          waitsForRank: schedule.rankOfStage[stage] ?? 0,
        },
      ];
    }
    return [];
  });
}

/** Returns which of the two actions with input gradients the schedule has for a stage and microbatch. */
function gradientKind(
  schedule: SweptSchedule,
  stage: number,
  { microbatch }: ComputeAction,
): 'backward' | 'inputGradient' {
  const own = schedule.actions[schedule.rankOfStage[stage] ?? 0] ?? [];
  const isSplit = own
    .flatMap(computationsOf)
    .some(
      (other) =>
        other.kind === 'inputGradient' && other.stage === stage && other.microbatch === microbatch,
    );
  return isSplit ? 'inputGradient' : 'backward';
}
