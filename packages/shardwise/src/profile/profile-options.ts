import {
  checkOptions,
  ConfigError,
  option,
  type OptionRule,
  type OptionRules,
} from '@shardwise/core/extend';
import type { Roofline, StepProfile } from '../run-state/rank-profile.ts';
import { parseSteps } from './parse-steps.ts';
import type { ProfilerAction } from './schedule.ts';
import { stepsText } from './summarize.ts';

/** What of a run is profiled. Give `steps` or `schedule`. */
export interface ProfileOptions {
  /** The first and the last step that are recorded, by the numbers that the script reports. */
  readonly steps?: readonly [from: number, to: number];
  /** What happens in each step, as profiler.schedule() returns it. Steps count from 0. */
  readonly schedule?: (step: number) => ProfilerAction;
  /** Called on each rank with each of its profiles, beside the page that is written in the folder of the run. */
  readonly onTraceReady?: (profile: StepProfile) => void;
  /**
   * What the device of a rank can do at most, in operations and bytes per second. Default: it is measured, if the
   * device is the processor.
   */
  readonly peak?: Roofline;
}

/** The variable by which `shardwise profile` says which steps its ranks profile, as `10-12`. */
export const profileVariable = 'SHARDWISE_PROFILE';

const stepsRule: OptionRule<readonly [number, number]> = {
  fits: (value): value is readonly [number, number] => {
    const [from, to, ...more]: readonly unknown[] = Array.isArray(value) ? value : [];
    return more.length === 0 && option.count.fits(from) && option.count.fits(to) && from <= to;
  },
  expected: '[from, to], the first and the last step',
};
const peakRules: OptionRules<Roofline> = {
  f32: option.positive,
  half: option.positive,
  bytesPerSecond: option.positive,
};
const rules: OptionRules<ProfileOptions> = {
  steps: stepsRule,
  schedule: option.callback(),
  onTraceReady: option.callback(),
  peak: option.object('{ f32, half, bytesPerSecond }'),
};

/** When a profile begins and ends, and who is told of it. */
export interface ProfilePlan extends Pick<ProfileOptions, 'onTraceReady' | 'peak'> {
  /** Says what happens in a step: `index` counts from 0, and `step` is the number that the script will report. */
  readonly actionOf: (step: { readonly index: number; readonly step: number }) => ProfilerAction;
  /** The steps, for messages. */
  readonly asked: string;
}

/**
 * Returns what a rank profiles. What the environment asks for replaces the steps of the options. Returns null if nothing
 * is profiled. Throws ConfigError.
 */
export function profilePlan(
  options: ProfileOptions | undefined,
  environment: Readonly<Record<string, string | undefined>>,
): ProfilePlan | null {
  const asked = 'init with profile';
  const text = environment[profileVariable];
  if (text === undefined) return options === undefined ? null : requirePlan(asked, options);
  const given = checked(asked, options ?? {});
  const steps = parseSteps(text);
  if (steps !== undefined) return { ...given, ...planOfSteps(steps) };
  throw new ConfigError({
    asked: `${profileVariable}=${text}`,
    found: 'no range of steps',
    todo: 'Write the first and the last one, as 10-12',
  });
}

/** Returns what `options` ask for. Throws ConfigError. */
export function requirePlan(asked: string, options: ProfileOptions): ProfilePlan {
  const given = checked(asked, options);
  const { steps, schedule } = options;
  if (steps !== undefined && schedule === undefined) return { ...given, ...planOfSteps(steps) };
  if (schedule !== undefined && steps === undefined) {
    const actionOf: ProfilePlan['actionOf'] = ({ index }) => schedule(index);
    return { ...given, actionOf, asked: 'the steps of its schedule' };
  }
  throw new ConfigError({
    asked,
    found: steps === undefined ? 'neither steps nor a schedule' : 'steps and a schedule',
    todo: 'Give steps: [10, 12], or schedule: profiler.schedule({ wait, warmup, active })',
  });
}

function checked(
  asked: string,
  options: ProfileOptions,
): Pick<ProfilePlan, 'onTraceReady' | 'peak'> {
  checkOptions(asked, options, rules);
  const { onTraceReady, peak } = options;
  if (peak !== undefined) checkOptions(`${asked}: peak`, peak, peakRules);
  return { ...(onTraceReady && { onTraceReady }), ...(peak && { peak }) };
}

function planOfSteps([from, to]: readonly [number, number]): Pick<
  ProfilePlan,
  'actionOf' | 'asked'
> {
  return {
    asked: stepsText({ from, to }),
    actionOf: ({ step }) => {
      if (step > to || step < from - 1) return 'none';
      if (step < from) return 'warmup';
      return step === to ? 'recordAndSave' : 'record';
    },
  };
}
