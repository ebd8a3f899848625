import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';

/** Maps the number of steps taken to a factor of the learning rate. */
export type Schedule = (step: number) => number;

// The arguments are checked where the schedule is made. Otherwise, a mistake would only show as a rate of NaN at a
// later step.

const steps = option.required(option.integer(1));
const factor = option.required(option.number);
const linearRules: OptionRules<{ totalSteps: number; endFactor: number }> = {
  totalSteps: steps,
  endFactor: factor,
};
const stepRules: OptionRules<{ stepSize: number; gamma: number }> = {
  stepSize: steps,
  gamma: factor,
};
const multiStepRules: OptionRules<{ milestones: readonly number[]; gamma: number }> = {
  milestones: option.required(option.listOf(option.number)),
  gamma: factor,
};
const exponentialRules: OptionRules<{ gamma: number }> = { gamma: factor };
const cosineRules: OptionRules<{ totalSteps: number; minFactor: number }> = {
  totalSteps: steps,
  minFactor: factor,
};
const warmupRules: OptionRules<{ warmupSteps: number; decay: Schedule }> = {
  warmupSteps: option.required(option.count),
  decay: option.required({
    ...option.callback<Schedule>(),
    expected: 'a schedule, as optim.cosineSchedule(1000)',
  }),
};

/** The factor is always 1. */
export function constantSchedule(): Schedule {
  return () => 1;
}

/** Goes linearly from 1 to `endFactor` in `totalSteps` steps, and stays there (torch LinearLR with start_factor 1). */
export function linearSchedule(totalSteps: number, endFactor = 0): Schedule {
  checkOptions('linearSchedule', { totalSteps, endFactor }, linearRules);
  return (step) => 1 + (endFactor - 1) * Math.min(1, step / totalSteps);
}

/** Multiplies by `gamma` every `stepSize` steps (torch StepLR). */
export function stepSchedule(stepSize: number, gamma = 0.1): Schedule {
  checkOptions('stepSchedule', { stepSize, gamma }, stepRules);
  return (step) => gamma ** Math.floor(step / stepSize);
}

/** Multiplies by `gamma` at each milestone (torch MultiStepLR). */
export function multiStepSchedule(milestones: readonly number[], gamma = 0.1): Schedule {
  checkOptions('multiStepSchedule', { milestones, gamma }, multiStepRules);
  return (step) => gamma ** milestones.filter((milestone) => milestone <= step).length;
}

/** Multiplies by `gamma` at each step (torch ExponentialLR). */
export function exponentialSchedule(gamma: number): Schedule {
  checkOptions('exponentialSchedule', { gamma }, exponentialRules);
  return (step) => gamma ** step;
}

/**
 * Half a cosine from 1 to `minFactor` in `totalSteps` steps, then constant (torch CosineAnnealingLR; Loshchilov and
 * Hutter 2017).
 */
export function cosineSchedule(totalSteps: number, minFactor = 0): Schedule {
  checkOptions('cosineSchedule', { totalSteps, minFactor }, cosineRules);
  return (step) => {
    const progress = Math.min(1, step / totalSteps);
    return minFactor + (1 - minFactor) * 0.5 * (1 + Math.cos(Math.PI * progress));
  };
}

/**
 * Rises linearly from 0 at step 0 to 1 at step `warmupSteps`, and then follows `decay`, which counts from
 * there. With cosineSchedule or linearSchedule of totalSteps - warmupSteps, it is
 * get_cosine_schedule_with_warmup or get_linear_schedule_with_warmup of transformers.
 */
export function warmupSchedule(
  warmupSteps: number,
  decay: Schedule = constantSchedule(),
): Schedule {
  checkOptions('warmupSchedule', { warmupSteps, decay }, warmupRules);
  return (step) => (step < warmupSteps ? step / warmupSteps : decay(step - warmupSteps));
}
