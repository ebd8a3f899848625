import { CheckpointError, ConfigError, describeValue } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import { requireNoMore } from '../tensor/check-calls.ts';
import { requireState } from './require-state.ts';
import type { Schedule } from './schedules.ts';

const ratesRule = option.listOf(option.number);

/** The part of an optimizer that a scheduler changes: the `lr` of each group. */
export interface ScheduledOptimizer {
  readonly paramGroups: readonly { lr: number }[];
}

/** The state of a `LearningRateScheduler`, as plain data. */
export interface LearningRateSchedulerState {
  readonly step: number;
  /** The learning rate of each group at factor 1. */
  readonly baseLearningRates: readonly number[];
}

/**
 * Sets the learning rate of each group to its rate at construction times the schedule's factor (torch
 * LambdaLR). Call step() after the optimizer's step().
 */
export class LearningRateScheduler {
  readonly #optimizer: ScheduledOptimizer;
  readonly #schedules: readonly Schedule[];
  #base: readonly number[];
  #step = 0;

  /**
   * Takes one schedule for all groups, or one for each group. Throws ConfigError for another number of
   * schedules, and for values that are not schedules.
   */
  constructor(
    optimizer: ScheduledOptimizer,
    schedule: Schedule | readonly Schedule[],
    ...more: readonly never[]
  ) {
    requireNoMore('LearningRateScheduler', 2, more);
    requireOptimizer('LearningRateScheduler', optimizer);
    requireSchedules(schedule);
    const { paramGroups } = optimizer;
    this.#schedules = typeof schedule === 'function' ? paramGroups.map(() => schedule) : schedule;
    if (this.#schedules.length !== paramGroups.length) {
      throw new ConfigError(
        {
          asked: `a scheduler with ${this.#schedules.length} schedules`,
          found: `${paramGroups.length} parameter groups`,
          todo: 'Give one schedule, or one per group',
        },
        { schedules: this.#schedules.length, groups: paramGroups.length },
      );
    }
    this.#optimizer = optimizer;
    this.#base = paramGroups.map(({ lr }) => lr);
    this.#apply();
  }

  /** Sets the learning rates of the next step. */
  step(): void {
    this.#step++;
    this.#apply();
  }

  /** The present learning rate of each group. */
  get learningRates(): readonly number[] {
    return this.#optimizer.paramGroups.map(({ lr }) => lr);
  }

  stateDict(): LearningRateSchedulerState {
    return { step: this.#step, baseLearningRates: this.#base };
  }

  /**
   * Throws CheckpointError for another number of groups, for a step that is not a count, and for rates that are not
   * numbers.
   */
  loadStateDict(state: LearningRateSchedulerState): void {
    requireState('LearningRateScheduler', state);
    const { step, baseLearningRates } = state;
    const isList = ratesRule.fits(baseLearningRates);
    if (!isList || baseLearningRates.length !== this.#base.length || !option.count.fits(step)) {
      throw new CheckpointError(
        {
          asked: `load a scheduler of ${this.#base.length} groups`,
          found: `step ${step} and the rates ${describeValue(baseLearningRates)}`,
          todo: 'Load the state of a scheduler of the same optimizer',
        },
        { step, baseLearningRates },
      );
    }
    this.#step = step;
    this.#base = [...baseLearningRates];
    this.#apply();
  }

  /**
   * Sets the learning rates of the present step. Throws ConfigError if the optimizer has got another group since the
   * construction.
   */
  #apply(): void {
    const { length } = this.#optimizer.paramGroups;
    if (length !== this.#schedules.length) {
      throw new ConfigError(
        {
          asked: `the learning rates of ${length} parameter groups`,
          found: `a scheduler that was made when there were ${this.#schedules.length}`,
          todo: 'Make the scheduler after the last addParamGroup(), with a schedule for each group where they differ',
        },
        { groups: length, schedules: this.#schedules.length },
      );
    }
    for (const [index, group] of this.#optimizer.paramGroups.entries()) {
      const base = this.#base[index];
      const schedule = this.#schedules[index];
      if (base !== undefined && schedule !== undefined) group.lr = base * schedule(this.#step);
    }
  }
}

/**
 * Throws ConfigError if `optimizer`, which was given to `of`, is not an optimizer. `call` is the right way to give one.
 */
export function requireOptimizer(
  of: string,
  optimizer: unknown,
  call: string = `new optim.${of}(optimizer, …)`,
): void {
  const isObject = typeof optimizer === 'object' && optimizer !== null;
  if (isObject && 'paramGroups' in optimizer && Array.isArray(optimizer.paramGroups)) return;
  throw new ConfigError({
    asked: `a ${of} of ${describeValue(optimizer)}`,
    found: 'no optimizer, whose parameter groups have learning rates',
    todo: `Pass the optimizer: ${call}`,
  });
}

function requireSchedules(schedule: unknown): void {
  const list: readonly unknown[] = Array.isArray(schedule) ? schedule : [schedule];
  const at = list.findIndex((each) => typeof each !== 'function');
  if (at < 0) return;
  const wrong = list[at];
  const factor = typeof wrong === 'number' ? wrong : 0.9;
  throw new ConfigError({
    asked: `a LearningRateScheduler with the schedule ${describeValue(wrong)}`,
    found: 'no function from the step to a factor',
    todo: `Give a schedule, as optim.exponentialSchedule(${factor}), or a function (step) => factor`,
  });
}
