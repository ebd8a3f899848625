import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { formatAction } from '../actions/action-text.ts';
import type { ScheduledAction, StageAction } from '../actions/action.ts';
import {
  chainEdges,
  computationsOf,
  type LoweredSchedule,
  type Schedule,
  type StageEdge,
} from '../actions/schedule.ts';
import { checkSchedule } from '../check/check-schedule.ts';
import { scheduleError } from '../check/schedule-error.ts';
import { addMessages } from './add-messages.ts';
import { gatherStages } from './gather-stages.ts';
import { receiveLate } from './receive-late.ts';

/** Options of `lowerSchedule`. */
export interface LowerOptions {
  /** The tensors that pass from stage to stage. Default: each stage takes the result of the stage before it. */
  readonly edges?: readonly StageEdge[];
  /**
   * Which input gradients are merged into one backward with the weight gradient that directly follows. Default:
   * 'unawaited', which means those that no other rank waits for. With 'all', other ranks wait for the weight
   * gradients, too: V-Min on 8 ranks then takes a third longer.
   */
  readonly mergeBackwards?: 'unawaited' | 'all' | 'none';
  /**
   * Gathers the parameters of a stage before they are used, and drops them when this number of other stages of
   * the rank come first. Default: parameters are always there.
   */
  readonly activeStages?: number;
  /** Whether the gradients of a stage are reduced right after its last backward. Default: false. */
  readonly reduceGradients?: boolean;
  /**
   * Whether a message is received right before the action that needs it, which takes less memory and overlaps
   * less. Then sends must not wait for their receives. Default: false.
   */
  readonly lateReceives?: boolean;
}

const lowerRules: OptionRules<LowerOptions> = {
  edges: option.listOf(option.object<StageEdge>('an edge { from, to, gradient }')),
  mergeBackwards: option.oneOf('unawaited', 'all', 'none'),
  activeStages: option.integer(1),
  reduceGradients: option.flag,
  lateReceives: option.flag,
};

/**
 * Adds the messages, and on request gathers and reductions, that ranks must execute for a schedule. All ranks have the
 * messages in the same order. So ranks that send and receive them one by one in this order cannot wait for each other,
 * even if each send waits for its receive.
 *
 * Throws ConfigError for a schedule that ranks cannot run.
 */
export function lowerSchedule(schedule: Schedule, options: LowerOptions = {}): LoweredSchedule {
  checkOptions('lowerSchedule', options, lowerRules);
  const edges = options.edges ?? chainEdges(schedule.stages);
  checkSchedule(schedule, edges);
  const { rankOfStage } = schedule;
  const { mergeBackwards: which = 'unawaited' } = options;
  const awaited = new Set(
    edges
      .filter(({ from, to, gradient }) => gradient && rankOfStage[from] !== rankOfStage[to])
      .map(({ to }) => to),
  );
  const mayMerge = (stage: number): boolean =>
    which === 'all' || (which === 'unawaited' && !awaited.has(stage));
  const lists = schedule.actions.map((own) => {
    const merged = mergeBackwards(own, mayMerge);
    refuseWidePairs(schedule, merged, options.activeStages);
    const gathered =
      options.activeStages === undefined ? merged : gatherStages(merged, options.activeStages);
    return options.reduceGradients === true
      ? addReductions(gathered, schedule.microbatches)
      : gathered;
  });
  const actions = addMessages({ ...schedule, actions: lists }, edges);
  return {
    ...schedule,
    edges,
    actions:
      options.lateReceives === true
        ? actions.map((own, rank) => receiveLate(own, rank, schedule.rankOfStage))
        : actions,
  };
}

function refuseWidePairs(
  schedule: Schedule,
  actions: readonly ScheduledAction[],
  activeStages = 2,
): void {
  const pair = actions.find(
    (action) => new Set(computationsOf(action).map(({ stage }) => stage)).size > activeStages,
  );
  if (pair === undefined) return;
  throw scheduleError(
    schedule,
    `${formatAction(pair)} uses 2 stages, and ${activeStages} may be active`,
    'Let 2 stages or more be active',
    { action: formatAction(pair), activeStages },
  );
}

/** Puts the reduction of a stage's gradients right after the last action that adds to them. */
function addReductions(
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
