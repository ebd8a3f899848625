import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';

/**
 * What a profiler does in a step. In a step of 'warmup' it works as in those that it records, and drops the result.
 * 'recordAndSave' is the last step of a profile.
 */
export type ProfilerAction = 'none' | 'warmup' | 'record' | 'recordAndSave';

/** Options of `schedule`, as torch.profiler.schedule has them. */
export interface ScheduleOptions {
  /** The steps of each cycle in which nothing happens. */
  readonly wait: number;
  /** The steps after them that are profiled and dropped. */
  readonly warmup: number;
  /** The steps after those that are recorded. */
  readonly active: number;
  /** The number of cycles. Default: 0, which is until the end. */
  readonly repeat?: number;
  /** The steps before the first cycle. Default: 0. */
  readonly skipFirst?: number;
  /** With a number above 0, the first cycle does not wait. Default: 0. */
  readonly skipFirstWait?: number;
}

const rules: OptionRules<ScheduleOptions> = {
  wait: option.required(option.count),
  warmup: option.required(option.count),
  active: option.required(option.integer(1)),
  repeat: option.count,
  skipFirst: option.count,
  skipFirstWait: option.count,
};

/**
 * Returns a function that says what a profiler does in each step. Steps count from 0, which is the first step of the
 * program. Throws ConfigError.
 */
export function schedule(options: ScheduleOptions): (step: number) => ProfilerAction {
  checkOptions('profiler.schedule', options, rules);
  const { wait, warmup, active, repeat = 0, skipFirst = 0, skipFirstWait = 0 } = options;
  const length = wait + warmup + active;
  // The first cycle is shorter by the wait that it skips.
  const skipped = skipFirstWait > 0 ? wait : 0;
  return (step) => {
    if (step < skipFirst) return 'none';
    const place = step - skipFirst + skipped;
    if (repeat > 0 && place >= repeat * length) return 'none';
    const inCycle = place % length;
    if (inCycle < wait) return 'none';
    if (inCycle < wait + warmup) return 'warmup';
    return inCycle < length - 1 ? 'record' : 'recordAndSave';
  };
}
