export { OutputConstraints } from './constraints/output-constraints.ts';
export type { ConstrainedText, TokenConstraint } from './constraints/token-constraint.ts';
export type { KvCacheDtype } from './cache/kept-rows.ts';
export { complete, type Completion } from './engine/complete.ts';
export { Engine } from './engine/engine.ts';
export type { EngineOptions } from './engine/engine-options.ts';
export type { EngineStatistics } from './engine/engine-statistics.ts';
export type { LoadWeightsOptions } from './engine/engine-weights.ts';
export type {
  FinishReason,
  GeneratedToken,
  GenerationRequest,
} from './engine/generation-request.ts';
export {
  generateRolloutCompletions,
  type RolloutCompletion,
  type RolloutOptions,
} from './engine/rollout-completions.ts';
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
export type { DraftSpeculation, NgramSpeculation, Speculation } from './speculation/speculation.ts';
export type { CacheState, SequenceState } from './scheduling/cache-state.ts';
export type { SchedulerOptions } from './scheduling/scheduler-options.ts';
export type { Sequence } from './scheduling/sequence.ts';
