import { currentSession, placeInMesh } from '@shardwise/core/extend';
import { type ProfileOptions, requirePlan } from './profile-options.ts';
import { StepProfiler } from './step-profiler.ts';

/** A profiler that runs. */
export interface StepRecording {
  /** Ends a step, and begins the next one. Call it once in each step, after the update has been awaited. */
  step(): void;
  /**
   * Ends the profiler. What was recorded so far is a profile, too. Settles when `onTraceReady` has got all profiles: those
   * of a device that says its times later come after their last step.
   */
  stop(): Promise<void>;
}

/**
 * Profiles steps of this rank, as torch.profiler.profile does, in a program without `context.report()`: in a page, or
 * beside a loop of one's own. `onTraceReady` gets the profiles. Steps count from 0, also those of `steps`. The peak of
 * the device is only known if it is given. Construct the model after this call. Throws ConfigError.
 */
export function profile(options: ProfileOptions): StepRecording {
  const plan = requirePlan('profiler.profile', options);
  const profiler = new StepProfiler({
    rank: placeInMesh(currentSession().mesh).rank,
    plan,
    roofline: plan.peak ?? {},
    send: () => {},
  });
  let step = 0;
  return {
    step: () => void profiler.step(step++),
    stop: () => profiler.close(),
  };
}
