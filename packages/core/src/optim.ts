// The names of torch.optim, as one group for users.
export { Adam } from './optim/adam.ts';
export { AdamW } from './optim/adam-w.ts';
export { AdamW8bit, type AdamW8bitOptions } from './optim/adam-w-8bit.ts';
export type { AdamSettings } from './optim/adam-rule.ts';
export { Lamb } from './optim/lamb.ts';
export {
  OneBitAdam,
  type OneBitAdamOptions,
  type OneBitAdamSettings,
} from './optim/one-bit-adam.ts';
export { SGD, type SGDSettings } from './optim/sgd.ts';
export { Optimizer, type OptimizerStateDict, type StepOptions } from './optim/optimizer.ts';
export type {
  OptimizerInput,
  OptimizerSettings,
  ParamGroup,
  ParamGroupInput,
} from './optim/param-group.ts';
export { clipGradNorm, totalGradNorm, type GradNormOptions } from './optim/clip-grad-norm.ts';
export {
  LearningRateScheduler,
  type LearningRateSchedulerState,
  type ScheduledOptimizer,
} from './optim/learning-rate-scheduler.ts';
export {
  DynamicLossScaler,
  type DynamicLossScalerOptions,
  type DynamicLossScalerState,
} from './optim/dynamic-loss-scaler.ts';
export { LossScaler, type ScaledOptimizer } from './optim/loss-scaler.ts';
export {
  constantSchedule,
  cosineSchedule,
  exponentialSchedule,
  linearSchedule,
  multiStepSchedule,
  stepSchedule,
  warmupSchedule,
  type Schedule,
} from './optim/schedules.ts';
