export { dataParallel } from './data-parallel/data-parallel-strategy.ts';
export {
  DataParallel,
  type DataParallelOptions,
  type DataParallelStrategy,
} from './data-parallel/data-parallel.ts';
export type { CommHook } from './distributed-data-parallel/comm-hook.ts';
export { bf16CompressHook, f16CompressHook } from './distributed-data-parallel/compress-hooks.ts';
export { ddp } from './distributed-data-parallel/ddp.ts';
export {
  DistributedDataParallel,
  type DistributedDataParallelOptions,
  type DistributedDataParallelStrategy,
} from './distributed-data-parallel/distributed-data-parallel.ts';
export type { GradBucket } from './distributed-data-parallel/grad-bucket.ts';
export {
  join,
  type Joinable,
  type JoinContext,
  type JoinedStep,
  type JoinHook,
  type JoinOptions,
} from './distributed-data-parallel/join.ts';
export { powerSgdHook, type PowerSgdHook } from './distributed-data-parallel/power-sgd-hook.ts';
export type {
  PowerSgdOptions,
  PowerSgdStateDict,
} from './distributed-data-parallel/power-sgd-state.ts';
export { countCollectives, type CollectiveCounts } from './distributed-tensor/count-collectives.ts';
export { distributeTensor, fromLocal } from './distributed-tensor/distribute-tensor.ts';
export {
  DistributedTensor,
  type DistributedCrossEntropyOptions,
  type DistributedOperand,
  type DistributedReduceOptions,
} from './distributed-tensor/distributed-tensor.ts';
export { formatRedistribution } from './distributed-tensor/format-redistribution.ts';
export { layoutOf, type DimAxes } from './distributed-tensor/layout-of.ts';
export type { BinaryOp, OpCall, UnaryOp } from './distributed-tensor/op-call.ts';
export { planRedistribution } from './distributed-tensor/plan-redistribution.ts';
export {
  propagateLayouts,
  type PlacedShape,
  type Propagation,
} from './distributed-tensor/propagate-layouts.ts';
export type {
  RedistributionMove,
  RedistributionPlan,
  RedistributionStep,
} from './distributed-tensor/redistribution.ts';
export type { Placed } from './distributed-tensor/run-op.ts';
export {
  chunkRange,
  localShape,
  shardRange,
  type CoordinateOf,
  type ElementRange,
} from './distributed-tensor/shard-range.ts';
export {
  visualizeSharding,
  type VisualizeOptions,
} from './distributed-tensor/visualize-sharding.ts';
export { fsdp, type FullyShardedDataParallelOptions } from './fully-sharded-data-parallel/fsdp.ts';
export type { MixedPrecision } from './mixed-precision/mixed-precision.ts';
export {
  constructSharded,
  type ConstructPartitioned,
  type ConstructShardedOptions,
} from './sharding/construct-sharded.ts';
export type { CutRule } from './sharding/cut.ts';
export {
  OffloadedOptimizer,
  type OffloadedOptimizerOptions,
} from './sharding/offloaded-optimizer.ts';
export { ShardedModel, type ShardedModelStrategy } from './sharding/sharded-model.ts';
export { outermostListMember, type UnitOf } from './sharding/unit-names.ts';
export { zero, type ZeroOptions, type ZeroStage } from './zero/zero.ts';
export { explain, formatLayout, type ExplainOptions } from './explain.ts';
export type { Cluster, StatesEstimate } from './memory/estimate.ts';
export { estimateZero2, type Zero2EstimateOptions } from './memory/estimate-zero-2.ts';
export { estimateZero3, type Zero3EstimateOptions } from './memory/estimate-zero-3.ts';
export { memory, type MemoryOptions, type MemoryUse } from './memory/memory.ts';
export { planMemory, type PlanMemory, type PlanMemoryOptions } from './memory/plan-memory.ts';
export type { StatesFormula } from './memory/states-formula.ts';
export { parallelize, planFor } from './parallelize.ts';
export { partitionParameters } from './zero-redundancy-optimizer/partition.ts';
export {
  ZeroRedundancyOptimizer,
  type OptimizerClass,
  type ZeroRedundancyOptions,
} from './zero-redundancy-optimizer/zero-redundancy-optimizer.ts';
export { compose } from './compose.ts';
export { inLayer } from './tensor-parallel/in-layer.ts';
export { changeCollectives, changePlacement } from './tensor-parallel/change-placement.ts';
export {
  colwiseParallel,
  type ColwiseParallelOptions,
} from './tensor-parallel/colwise-parallel.ts';
export type { GatherAgainOptions } from './tensor-parallel/gather-again-options.ts';
export {
  gptTensorParallel,
  type GptTensorParallelOptions,
} from './tensor-parallel/gpt-tensor-parallel.ts';
export { headParallel, type HeadParallelOptions } from './tensor-parallel/head-parallel.ts';
export type {
  AxisPlace,
  ModuleSpec,
  ParallelStyle,
  StyleCollective,
} from './tensor-parallel/parallel-style.ts';
export type { Partition } from './tensor-parallel/partition.ts';
export {
  PartitionedParameter,
  type PartitionedParameterOptions,
} from './tensor-parallel/partitioned-parameter.ts';
export { shard, type Placement, type ShardPlacement } from './tensor-parallel/placement.ts';
export {
  prepareModuleInput,
  prepareModuleOutput,
  type PlacementChange,
} from './tensor-parallel/prepare-module.ts';
export {
  rowwiseParallel,
  type RowwiseParallelOptions,
} from './tensor-parallel/rowwise-parallel.ts';
export {
  sequenceParallel,
  type SequenceParallelOptions,
} from './tensor-parallel/sequence-parallel.ts';
export { tensorParallel, type TensorParallelOptions } from './tensor-parallel/tensor-parallel.ts';
export type { StylePlan } from './tensor-parallel/tensor-parallel-plan.ts';
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
