import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import type { ScheduledAction } from '../actions/action.ts';
import type { Schedule } from '../actions/schedule.ts';

/** The numbers of ranks, stages and microbatches for which a schedule is made. */
export interface ScheduleShape {
  readonly ranks: number;
  /** The number of stages of each rank. Default: 1, or 2 for schedules whose ranks have 2 stages each. */
  readonly stagesPerRank?: number;
  readonly microbatches: number;
}

/** A shape without missing fields. */
export type FullShape = Required<ScheduleShape>;

/** The limits of shapes. Beyond them, lists of actions would be longer than for any real training. */
const most = { ranks: 4096, stagesPerRank: 256, microbatches: 65_536, computations: 10_000_000 };

const shapeRules: OptionRules<ScheduleShape> = {
  ranks: option.required(option.integer(1, most.ranks)),
  stagesPerRank: option.integer(1, most.stagesPerRank),
  microbatches: option.required(option.integer(1, most.microbatches)),
};

/** Fills in defaults. Throws ConfigError for numbers that no schedule takes. */
export function fullShape(name: string, shape: ScheduleShape, stagesPerRank: number): FullShape {
  checkOptions(`the schedule ${name}`, shape, shapeRules);
  const full = { stagesPerRank, ...shape };
  const computations = full.ranks * full.stagesPerRank * full.microbatches;
  if (computations > most.computations) {
    throw refusal(
      name,
      full,
      `${computations} pairs of stage and microbatch`,
      `Take ${most.computations} at most`,
    );
  }
  return full;
}

/** Returns the error for a schedule that cannot have a shape. */
export function refusal(name: string, shape: FullShape, found: string, todo: string): ConfigError {
  const { ranks, stagesPerRank, microbatches } = shape;
  return new ConfigError(
    {
      asked: `the schedule ${name} for ${count(ranks, 'rank')} with ${count(stagesPerRank, 'stage')} each and ${count(microbatches, 'microbatch', 'microbatches')}`,
      found,
      todo,
    },
    { schedule: name, ranks, stagesPerRank, microbatches },
  );
}

/** Throws ConfigError unless each rank has one stage on the way down the ranks and one on the way up. */
export function requireTwoStages(name: string, shape: FullShape): void {
  if (shape.stagesPerRank === 2) return;
  throw refusal(
    name,
    shape,
    `${count(shape.stagesPerRank, 'stage')}, and a rank has one on the way down and one on the way up`,
    'Take 2 stages per rank',
  );
}

function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/**
 * Returns the rank of each stage: rank s modulo `ranks` has stage s, so a rank's next stage is `ranks` stages later.
 */
export function loopPlacement({ ranks, stagesPerRank }: FullShape): number[] {
  return Array.from({ length: ranks * stagesPerRank }, (_, stage) => stage % ranks);
}

/** Returns the rank of each stage if stages go down the ranks and up again: rank 0 has the first and the last stage. */
export function vPlacement({ ranks, stagesPerRank }: FullShape): number[] {
  return Array.from({ length: ranks * stagesPerRank }, (_, stage) => {
    const place = stage % ranks;
    return Math.floor(stage / ranks) % 2 === 0 ? place : ranks - 1 - place;
  });
}

/** Makes a schedule from the actions of each rank. */
export function scheduleOf(
  name: string,
  shape: FullShape,
  rankOfStage: readonly number[],
  actionsOf: (rank: number) => readonly ScheduledAction[],
): Schedule {
  return {
    name,
    ranks: shape.ranks,
    stages: rankOfStage.length,
    microbatches: shape.microbatches,
    forwardOnly: false,
    rankOfStage,
    actions: Array.from({ length: shape.ranks }, (_, rank) => actionsOf(rank)),
  };
}
