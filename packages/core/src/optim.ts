// The names of torch.optim, as one group for users.
export { Adafactor, type AdafactorSettings } from './optim/adafactor.ts';
export { Adagrad, type AdagradSettings } from './optim/adagrad.ts';
export { Adam, AdamW } from './optim/adam.ts';
export { AdamW8bit, type AdamW8bitOptions } from './optim/adam-w-8bit.ts';
export type { AdamMomentSettings, AdamSettings } from './optim/adam-rule.ts';
export { Lamb } from './optim/lamb.ts';
export { Lion, type LionSettings } from './optim/lion.ts';
export type { MaximizeSettings } from './optim/maximize.ts';
export { Muon, type MuonAdjustment, type MuonSettings } from './optim/muon.ts';
export {
  OneBitAdam,
  type OneBitAdamOptions,
  type OneBitAdamSettings,
} from './optim/one-bit-adam.ts';
export { RMSprop, type RMSpropSettings } from './optim/rmsprop.ts';
export { SGD, type SGDSettings } from './optim/sgd.ts';
export { Optimizer, type OptimizerStateDict, type StepOptions } from './optim/optimizer.ts';
export type {
  OptimizerInput,
  OptimizerSettings,
  ParamGroup,
  ParamGroupInput,
} from './optim/param-group.ts';
export {
  AveragedWeights,
  type AveragedWeightsOptions,
  type AveragedWeightsState,
} from './optim/averaged-weights.ts';
export { updateBatchNorm } from './optim/update-batch-norm.ts';
export { clipGradNorm, totalGradNorm, type GradNormOptions } from './optim/clip-grad-norm.ts';
export { clipGradValue } from './optim/clip-grad-value.ts';
export {
  LearningRateScheduler,
  type LearningRateSchedulerState,
  type ScheduledOptimizer,
} from './optim/learning-rate-scheduler.ts';
export {
  OneCycleScheduler,
  type OneCycleOptimizer,
  type OneCycleOptions,
} from './optim/one-cycle-scheduler.ts';
export {
  ReduceLROnPlateau,
  type ReduceLROnPlateauOptions,
  type ReduceLROnPlateauState,
} from './optim/reduce-lr-on-plateau.ts';
export { SWALR, type SWALROptions } from './optim/swa-lr.ts';
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
