import { ConfigError } from '../spec/errors.ts';

/** From the number of steps taken to a factor of the learning rate. */
export type Schedule = (step: number) => number;

/** Always 1. */
export function constantSchedule(): Schedule {
  return () => 1;
}

/** From 1 to `endFactor` in `totalSteps` steps, then there (torch LinearLR with start_factor 1). */
export function linearSchedule(totalSteps: number, endFactor = 0): Schedule {
  checkSteps('linearSchedule', totalSteps);
  return (step) => 1 + (endFactor - 1) * Math.min(1, step / totalSteps);
}

/** Times `gamma` every `stepSize` steps (torch StepLR). */
export function stepSchedule(stepSize: number, gamma = 0.1): Schedule {
  checkSteps('stepSchedule', stepSize);
  return (step) => gamma ** Math.floor(step / stepSize);
}

/** Times `gamma` at each milestone (torch MultiStepLR). */
export function multiStepSchedule(milestones: readonly number[], gamma = 0.1): Schedule {
  return (step) => gamma ** milestones.filter((milestone) => milestone <= step).length;
}

/** Times `gamma` at each step (torch ExponentialLR). */
export function exponentialSchedule(gamma: number): Schedule {
  return (step) => gamma ** step;
}

/** Half a cosine from 1 to `minFactor` in `totalSteps` steps, then there (torch CosineAnnealingLR; Loshchilov and Hutter 2017). */
export function cosineSchedule(totalSteps: number, minFactor = 0): Schedule {
  checkSteps('cosineSchedule', totalSteps);
  return (step) => {
    const progress = Math.min(1, step / totalSteps);
    return minFactor + (1 - minFactor) * 0.5 * (1 + Math.cos(Math.PI * progress));
  };
}

/**
 * Linearly from 0 at step 0 to 1 at step `warmupSteps`, then `decay`, which counts from there: with
 * cosineSchedule or linearSchedule what transformers' get_cosine_schedule_with_warmup and
 * get_linear_schedule_with_warmup give for totalSteps - warmupSteps.
 */
export function warmupSchedule(
  warmupSteps: number,
  decay: Schedule = constantSchedule(),
): Schedule {
  if (warmupSteps !== 0) checkSteps('warmupSchedule', warmupSteps);
  return (step) => (step < warmupSteps ? step / warmupSteps : decay(step - warmupSteps));
}

function checkSteps(schedule: string, steps: number): void {
  if (Number.isSafeInteger(steps) && steps > 0) return;
  throw new ConfigError(
    {
      asked: `${schedule} over ${steps} steps`,
      found: 'no positive integer',
      todo: 'Use an integer of at least 1',
    },
    { schedule, steps },
  );
}
