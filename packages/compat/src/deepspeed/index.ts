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
  type SaveEngineOptions,
} from './engine.ts';
export { PipelineEngine } from './pipeline-engine.ts';
export type { EngineOptimizer, OptimizerOf } from './optimizers.ts';
export type { TrainingArguments } from './resolve-auto.ts';
export { DeepSpeedScheduler, type DeepSpeedSchedulerState } from './schedulers.ts';
export { elasticBatch, type ElasticBatch, type Elasticity } from './elasticity.ts';
export { readZeroCheckpoint, type ZeroCheckpoint } from '../zero/zero-checkpoint.ts';
export type { ZeroGroup } from '../zero/zero-optimizer.ts';
