import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import type { ScheduledAction } from './action.ts';
import { formatAction } from './action-text.ts';
import { addMessages } from './lowering/add-messages.ts';
import { addReductions } from './lowering/add-reductions.ts';
import { gatherStages } from './lowering/gather-stages.ts';
import { mergeBackwards } from './lowering/merge-backwards.ts';
import { receiveLate } from './lowering/receive-late.ts';
import { checkSchedule } from './check-schedule.ts';
import {
  chainEdges,
  computationsOf,
  type LoweredSchedule,
  type Schedule,
  type StageEdge,
} from './schedule.ts';
import { scheduleError } from './schedule-error.ts';

/** Options of `lowerSchedule`. */
export interface LowerOptions {
  /** What crosses from stage to stage. Default: each stage takes what the one before it makes. */
  readonly edges?: readonly StageEdge[];
  /**
   * Which input gradients become whole backwards with the weight gradient directly behind them. Default 'unawaited':
   * those for which no other rank waits. With 'all' other ranks wait for the weight gradients, too: V-Min on 8 ranks
   * takes a third longer.
   */
  readonly mergeBackwards?: 'unawaited' | 'all' | 'none';
  /**
   * Gathers a stage's parameters before they are used and drops them when this many other stages of the rank come
   * first. Default: parameters are always there.
   */
  readonly activeStages?: number;
  /** Reduces a stage's gradients right after its last backward; default false. */
  readonly reduceGradients?: boolean;
  /**
   * Receives right before what needs the message, for less memory and less overlap; default false. Sends then may not
   * wait for their receives.
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
 * What ranks execute so that the schedule happens. Messages are in one order of all ranks: those that ranks send and receive one by
 * one, as they stand here, cannot wait for each other, even if each send waits for its receive.
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
    `${formatAction(pair)} uses 2 stages where ${activeStages} may be active`,
    'Let 2 stages or more be active',
    { action: formatAction(pair), activeStages },
  );
}
