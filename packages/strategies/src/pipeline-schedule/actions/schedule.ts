import type { OptionRule } from '@shardwise/core/extend';
import type { Action, ComputeAction, ScheduledAction } from './action.ts';

/**
 * The computations of each rank, in their order. It is pure data: it can be printed, drawn, simulated, edited and
 * written to a file.
 */
export interface Schedule {
  /** The name in errors and drawings. It does not determine what the schedule does. */
  readonly name: string;
  readonly ranks: number;
  readonly stages: number;
  readonly microbatches: number;
  /** Whether stages only compute forwards, as in evaluation. */
  readonly forwardOnly: boolean;
  /** The rank that has each stage. */
  readonly rankOfStage: readonly number[];
  /** Each rank's actions in the order in which it runs them. */
  readonly actions: readonly (readonly ScheduledAction[])[];
}

/**
 * A tensor that stage `from` makes and stage `to`, a later one, takes. There is at most one edge between two
 * stages.
 */
export interface StageEdge {
  readonly from: number;
  readonly to: number;
  /**
   * Whether a gradient travels back over the edge. It does not for integers, and not to stages in which nothing is
   * trained.
   */
  readonly gradient: boolean;
  /** The bytes of one microbatch in each direction. Only times and explanations use it. Default: 0. */
  readonly bytes?: number;
}

/** A schedule as ranks execute it: with messages, and with gathering and reductions if these were requested. */
export interface LoweredSchedule extends Omit<Schedule, 'actions'> {
  readonly edges: readonly StageEdge[];
  readonly actions: readonly (readonly Action[])[];
}

/** Returns the edges of a chain, in which each stage takes the result of the one before it. */
export function chainEdges(stages: number): StageEdge[] {
  return Array.from({ length: Math.max(0, stages - 1) }, (_, from) => ({
    from,
    to: from + 1,
    gradient: true,
  }));
}

/** The one or two computations of an action, none for messages and gathering. */
export function computationsOf(action: Action): readonly ComputeAction[] {
  switch (action.kind) {
    case 'forward':
    case 'backward':
    case 'inputGradient':
    case 'weightGradient':
      return [action];
    case 'overlap':
      return action.actions;
    default:
      return [];
  }
}

/** Returns the stages of a rank, in ascending order. */
export function stagesOfRank(schedule: Pick<Schedule, 'rankOfStage'>, rank: number): number[] {
  return schedule.rankOfStage.flatMap((owner, stage) => (owner === rank ? [stage] : []));
}

/** Returns 0, 1, …, length - 1. The list is empty for lengths below 1. */
export function range(length: number): number[] {
  return Array.from({ length: Math.max(0, length) }, (_, index) => index);
}

/** The rule for options that are times or bytes. */
export const amount: OptionRule<number> = {
  fits: (value): value is number =>
    typeof value === 'number' && Number.isFinite(value) && value >= 0,
  expected: 'a finite number from 0',
};
