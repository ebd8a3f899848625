export {
  contextParallel,
  type ContextParallelOptions,
} from './context-parallel/context-parallel.ts';
export type { AttentionSizes } from './plan/attention-sizes.ts';
export type { SequencesOf } from './context-parallel/cut-inputs.ts';
export type { ContextLossWeight } from './context-parallel/join-outputs.ts';
export type { ContextMethod } from './context-parallel/methods.ts';
export { type SequenceRanks, SequenceCut, type Stretch } from './context-parallel/sequence-cut.ts';
export { dataParallel, type DataParallelOptions } from './data-parallel/data-parallel.ts';
export type { CommHook } from './distributed-data-parallel/comm-hook.ts';
export { bf16CompressHook, f16CompressHook } from './distributed-data-parallel/compress-hooks.ts';
export { ddp, type DistributedDataParallelOptions } from './distributed-data-parallel/ddp.ts';
export type { GradBucket } from './distributed-data-parallel/grad-bucket.ts';
export {
  join,
  type Joinable,
  type JoinContext,
  type JoinedStep,
  type JoinHook,
  type JoinOptions,
} from './distributed-data-parallel/join.ts';
export { joinBatches, type JoinedBatch } from './distributed-data-parallel/join-batches.ts';
export type { Aggregate } from './local-sgd/aggregation/aggregate-option.ts';
export { diloco, type DiLoCoOptions } from './local-sgd/diloco.ts';
export type { AuditedBatch, AuditOptions } from './local-sgd/members/audit-options.ts';
export {
  localSgd,
  type LocalSgdOptions,
  type StrategyWithOuterSteps,
} from './local-sgd/local-sgd.ts';
export type {
  AuditTask,
  MemberAudits,
  Members,
  MemberState,
  MemberUpdate,
  RefusedUpdate,
  RoundResult,
  RunDescription,
  UpdateTrace,
} from './local-sgd/members/members.ts';
export type { OuterOptions } from './local-sgd/outer-optimizer-settings.ts';
export type { OuterState, OuterStateDict } from './local-sgd/outer-state.ts';
export { powerSgdHook, type PowerSgdHook } from './distributed-data-parallel/power-sgd-hook.ts';
export type {
  PowerSgdOptions,
  PowerSgdStateDict,
} from './distributed-data-parallel/power-sgd-state.ts';
export { countCollectives, type CollectiveCounts } from '@shardwise/core/extend';
export { distributeTensor, fromLocal } from '@shardwise/core/extend';
export {
  gatherForMetrics,
  type GatherForMetricsOptions,
} from './gather-for-metrics/gather-for-metrics.ts';
export {
  formatRedistribution,
  type RedistributionMove,
  type RedistributionPlan,
  type RedistributionStep,
} from '@shardwise/core/extend';
export { layoutOf } from '@shardwise/core/extend';
export { planRedistribution } from '@shardwise/core/extend';
export {
  visualizeSharding,
  type VisualizeOptions,
} from './visualize-sharding/visualize-sharding.ts';
export { fsdp, type FullyShardedDataParallelOptions } from './sharded/fsdp.ts';
export type { StrategyWithLoss } from './plan/strategy.ts';
export type { MixedPrecision } from './mixed-precision/mixed-precision.ts';
export { constructSharded } from './sharded/construct-sharded.ts';
export {
  OffloadedOptimizer,
  type OffloadedOptimizerOptions,
} from './optimizers/offloaded-optimizer.ts';
export { byLayer, type UnitOf } from './plan/unit-names.ts';
export type { QuantizedGradients, ZeroPlusPlusOptions } from './sharded/zero-plus-plus.ts';
export { zero, type ZeroOptions, type ZeroStage } from './sharded/zero.ts';
export { explain, type ExplainOptions } from './apply/explain.ts';
export {
  type Cluster,
  estimateZero2,
  estimateZero3,
  type StatesEstimate,
  type Zero2EstimateOptions,
  type Zero3EstimateOptions,
} from './memory/estimate.ts';
export {
  type HeldMemory,
  heldMemory,
  memory,
  type MemoryOptions,
  type MemoryUse,
} from './memory/memory.ts';
export { planMemory, type PlanMemory, type PlanMemoryOptions } from './memory/plan-memory.ts';
export type { StatesFormula } from './memory/states-formula.ts';
export { textTable } from './plan/text-table.ts';
export { countModelCosts } from './pipeline/costs/count-model-costs.ts';
export { measureModelCosts } from './pipeline/costs/measure-model-costs.ts';
export type { ModelCosts, ModelCostsOptions, ModuleCosts } from './pipeline/costs/model-costs.ts';
export type { LossWeight } from './pipeline/microbatches/loss-weight.ts';
export { onEveryRank } from './pipeline/messages/on-every-rank.ts';
export {
  OptimisticOptimizer,
  type OptimisticOptimizerOptions,
  type Verdict,
} from './optimizers/optimistic-optimizer.ts';
export { GPipe, type GPipeOptions, type GPipeWithLoss } from './apply/pipe.ts';
export { pipeline, type PipelineOptions, type PipelineWithLoss } from './pipeline/pipeline.ts';
export { PipelineRunner } from './apply/stepped-pipeline.ts';
export { parallelize, planFor } from './apply/parallelize.ts';
export {
  ZeroRedundancyOptimizer,
  type OptimizerClass,
  type ZeroRedundancyOptions,
} from './optimizers/zero-redundancy-optimizer.ts';
export type {
  Action,
  ComputeAction,
  ComputeKind,
  OverlapAction,
  ScheduledAction,
  StageAction,
  StageKind,
  TransferAction,
  TransferKind,
} from './pipeline-schedule/actions/action.ts';
export { formatAction } from './pipeline-schedule/actions/action-text.ts';
export {
  activationSlots,
  type ActivationSlot,
  type RankSlots,
} from './pipeline-schedule/simulation/activation-slots.ts';
export {
  automaticSchedule,
  type AutomaticSchedule,
  type AutomaticScheduleOptions,
  type LayerCosts,
} from './pipeline-schedule/automatic/automatic-schedule.ts';
export { balancedPartition } from './pipeline-schedule/automatic/balanced-partition.ts';
export { checkLoweredSchedule } from './pipeline-schedule/check/check-lowered-schedule.ts';
export { checkSchedule } from './pipeline-schedule/check/check-schedule.ts';
export { explainSchedule } from './pipeline-schedule/views/explain-schedule.ts';
export { lowerSchedule, type LowerOptions } from './pipeline-schedule/lowering/lower-schedule.ts';
export {
  pipelineSchedule,
  scheduleNames,
  type ScheduleName,
} from './pipeline-schedule/pipeline-schedule.ts';
export type {
  LinkCosts,
  ScheduleCosts,
  StageCosts,
} from './pipeline-schedule/simulation/schedule-costs.ts';
export type { LoweredSchedule, Schedule, StageEdge } from './pipeline-schedule/actions/schedule.ts';
export type { ScheduleShape } from './pipeline-schedule/schedules/schedule-shape.ts';
export {
  readLoweredSchedule,
  readSchedule,
  type ReadScheduleOptions,
  writeSchedule,
} from './pipeline-schedule/views/schedule-text.ts';
export { evaluationOf } from './pipeline-schedule/schedules/forward-only.ts';
export {
  simulateSchedule,
  type RankSimulation,
  type ScheduleSimulation,
  type TimedAction,
} from './pipeline-schedule/simulation/simulate-schedule.ts';
export {
  visualizeSchedule,
  type VisualizeScheduleOptions,
} from './pipeline-schedule/views/visualize-schedule.ts';
export { compose } from './apply/compose.ts';
export { expertParallel, type ExpertParallelOptions } from './expert-parallel/expert-parallel.ts';
export { layerParameter, type LayerParameterOptions } from './parameters/layer-placement.ts';
export { forEachTensor, mapTensors } from './modules/map-tensors.ts';
export { wrapMethod } from './tensor-parallel/wrap-method.ts';
export { inLayer } from './parameters/in-layer.ts';
export { collectivesOfMove, moveOver } from '@shardwise/core/extend';
export { redistribute, redistributeOver } from '@shardwise/core/extend';
export type { AdaptedProduct, SharedProduct } from './tensor-parallel/adapted-product.ts';
export {
  colwiseParallel,
  type ColwiseParallelOptions,
} from './tensor-parallel/colwise-parallel.ts';
export type { GatherAgainOptions } from './tensor-parallel/gather-again.ts';
export {
  gptTensorParallel,
  type GptTensorParallelOptions,
} from './tensor-parallel/gpt-tensor-parallel.ts';
export { headParallel, type HeadParallelOptions } from './tensor-parallel/head-parallel.ts';
export type {
  ActivationChange,
  ActivationSizes,
  AxisPlace,
  ModuleKind,
  ModuleSpec,
  ParallelStyle,
  ParameterLayout,
  ParameterSharding,
  StyleCollective,
  StyledComputation,
} from './tensor-parallel/parallel-style.ts';
export {
  type ActivationLayout,
  type ActivationSharding,
  type AxisLayout,
  type DimSharding,
  shard,
  type Sharding,
} from '@shardwise/core/extend';
export { prepareModuleInput, prepareModuleOutput } from './tensor-parallel/prepare-module.ts';
export { ownDraws } from './tensor-parallel/own-draws.ts';
export {
  rowwiseParallel,
  type RowwiseParallelOptions,
} from './tensor-parallel/rowwise-parallel.ts';
export {
  sequenceParallel,
  type SequenceParallelOptions,
} from './tensor-parallel/sequence-parallel.ts';
export { tensorParallel, type TensorParallelOptions } from './tensor-parallel/tensor-parallel.ts';
export type { StylePlan } from './tensor-parallel/styled-modules.ts';
export {
  vocabParallelCrossEntropy,
  type VocabParallelCrossEntropyOptions,
} from './tensor-parallel/vocab-parallel-cross-entropy.ts';
export {
  vocabParallelEmbedding,
  type VocabParallelEmbeddingOptions,
} from './tensor-parallel/vocab-parallel-embedding.ts';
export { gridCrossEntropy, ownRows } from './tensor-parallel/multi-dimensional/grid-batch.ts';
export { GridBlock, type BlockLayers } from './tensor-parallel/multi-dimensional/grid-block.ts';
export { GridEmbedding } from './tensor-parallel/multi-dimensional/grid-embedding.ts';
export { GridLayerNorm } from './tensor-parallel/multi-dimensional/grid-layer-norm.ts';
export { GridLinear } from './tensor-parallel/multi-dimensional/grid-linear.ts';
export type { RankGrid } from './tensor-parallel/multi-dimensional/rank-grid.ts';
export {
  threeDimensional,
  type ThreeDimensionalOptions,
} from './tensor-parallel/multi-dimensional/three-dimensional.ts';
export {
  twoAndAHalfDimensional,
  type TwoAndAHalfDimensionalOptions,
} from './tensor-parallel/multi-dimensional/two-and-a-half-dimensional.ts';
export {
  twoDimensional,
  type TwoDimensionalOptions,
} from './tensor-parallel/multi-dimensional/two-dimensional.ts';
export { applyPlan } from './apply/apply-plan.ts';
export type {
  BroadcastsBuffers,
  NamedParameters,
  PartReducer,
  PassHooks,
  PlanContext,
  ShardingRequest,
  WholeReducer,
} from './plan/plan-context.ts';
export type { BatchAxes } from './plan/axes.ts';
export { PlannedModel } from './apply/planned-model.ts';
export type { PlannedModelWithLoss } from './apply/planned-model.ts';
export {
  type AxisUse,
  collectivesOf,
  type MergedStep,
  type ModelPlan,
  Step,
  type StepKey,
  type StepKind,
  stepsOf,
} from './plan/step.ts';
export * as stepKinds from './step-kinds.ts';
export { requireOneStep } from './plan/agreeing-steps.ts';
export { requireAxis } from './plan/axes.ts';
