import type { Action, ComputeAction, ScheduledAction } from './action.ts';

/** What ranks compute, in which order. Pure data: it can be printed, drawn, simulated, edited and written to a file. */
export interface Schedule {
  /** As in errors and drawings; says nothing about what the schedule does. */
  readonly name: string;
  readonly ranks: number;
  readonly stages: number;
  readonly microbatches: number;
  /** Stages only compute forwards, as in evaluation. */
  readonly forwardOnly: boolean;
  /** The rank that has each stage. */
  readonly rankOfStage: readonly number[];
  /** Each rank's actions in the order in which it runs them. */
  readonly actions: readonly (readonly ScheduledAction[])[];
}

/** What stage `from` makes and stage `to`, a later one, takes. There is one edge at most between two stages. */
export interface StageEdge {
  readonly from: number;
  readonly to: number;
  /** Whether a gradient comes back over it: not for integers, nor to stages where nothing is trained. */
  readonly gradient: boolean;
  /** What crosses for one microbatch, each way; only times and explanations ask for it. Default 0. */
  readonly bytes?: number;
}

/** What ranks execute: a schedule with its messages, and with gathering and reductions where it was asked for. */
export interface LoweredSchedule extends Omit<Schedule, 'actions'> {
  readonly edges: readonly StageEdge[];
  readonly actions: readonly (readonly Action[])[];
}

/** Edges of a chain: each stage takes what the one before it makes. */
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

/** Stages of a rank, in ascending order. */
export function stagesOfRank(schedule: Pick<Schedule, 'rankOfStage'>, rank: number): number[] {
  return schedule.rankOfStage.flatMap((owner, stage) => (owner === rank ? [stage] : []));
}
