export { complete, type Completion } from './engine/complete.ts';
export { Engine, type EngineStatistics } from './engine/engine.ts';
export type { EngineOptions } from './engine/engine-options.ts';
export type {
  FinishReason,
  GeneratedToken,
  GenerationRequest,
} from './engine/generation-request.ts';
export { PagedCache, type PagedCacheOptions } from './cache/paged-cache.ts';
export { layOut, type QueryGroup, type StepLayout } from './cache/step-layout.ts';
export { BlockAllocator, type BlockContent, type BlockCopy } from './blocks/block-allocator.ts';
export { BlockTable } from './blocks/block-table.ts';
export type { TokenProbability } from './sampling/log-probabilities.ts';
export type { SamplingOptions } from './sampling/sampling-options.ts';
export {
  byPriority,
  fairByTenant,
  firstCome,
  type SchedulingPolicy,
  type ServedTokens,
  shortestFirst,
} from './scheduling/policies.ts';
export { Scheduler, type SchedulerOptions, type StepPlan } from './scheduling/scheduler.ts';
export type { Chunk, Sequence, SequenceOptions } from './scheduling/sequence.ts';
