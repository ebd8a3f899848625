export { dataParallel } from './data-parallel/data-parallel-strategy.ts';
export { DataParallel, type DataParallelOptions } from './data-parallel/data-parallel.ts';
export {
  assignBuckets,
  bucketBytes,
  firstBucketBytes,
  type Bucket,
  type BucketItem,
} from './distributed-data-parallel/buckets.ts';
export type { CommHook } from './distributed-data-parallel/comm-hook.ts';
export { bf16CompressHook, f16CompressHook } from './distributed-data-parallel/compress-hooks.ts';
export { ddp } from './distributed-data-parallel/ddp.ts';
export {
  DistributedDataParallel,
  type DistributedDataParallelOptions,
} from './distributed-data-parallel/distributed-data-parallel.ts';
export { GradBucket, type GradBucketOptions } from './distributed-data-parallel/grad-bucket.ts';
export {
  join,
  JoinContext,
  type Joinable,
  type JoinedStep,
  type JoinHook,
  type JoinOptions,
} from './distributed-data-parallel/join.ts';
export { powerSgdHook } from './distributed-data-parallel/power-sgd-hook.ts';
export type { PowerSgdOptions } from './distributed-data-parallel/power-sgd-state.ts';
export { fsdp, type FullyShardedDataParallelOptions } from './fully-sharded-data-parallel/fsdp.ts';
export type { MixedPrecision } from './sharding/mixed-precision.ts';
export { constructSharded, type ConstructShardedOptions } from './sharding/construct-sharded.ts';
export type { CutRule } from './sharding/cut.ts';
export { fullStateDict } from './sharding/full-state-dict.ts';
export {
  OffloadedOptimizer,
  type OffloadedOptimizerOptions,
} from './sharding/offloaded-optimizer.ts';
export { ShardedModel } from './sharding/sharded-model.ts';
export { ShardedParameter } from './sharding/sharded-parameter.ts';
export { outermostListMember, oneUnit, type UnitOf } from './sharding/unit-names.ts';
export { zero, type ZeroOptions, type ZeroStage } from './zero/zero.ts';
export { explain, formatLayout } from './explain.ts';
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
