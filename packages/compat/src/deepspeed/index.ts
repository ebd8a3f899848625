export {
  initialize,
  type Initialized,
  type InitializeOptions,
  type InitializePipelineOptions,
} from './initialize.ts';
export {
  DeepSpeedEngine,
  type EngineContext,
  type EngineScheduler,
  type LoadedCheckpoint,
  type LoadEngineOptions,
  PipelineEngine,
  type SaveEngineOptions,
} from './engine.ts';
export type { EngineOptimizer, OptimizerOf } from './optimizers.ts';
export type { TrainingArguments } from './resolve-auto.ts';
export { DeepSpeedScheduler, type DeepSpeedSchedulerState } from './schedulers.ts';
export { elasticBatch, type ElasticBatch, type Elasticity } from './elasticity.ts';
export { readZeroCheckpoint, type ZeroCheckpoint } from './zero-checkpoint.ts';
