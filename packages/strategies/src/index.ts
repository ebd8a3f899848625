export {
  assignBuckets,
  bucketBytes,
  firstBucketBytes,
  type Bucket,
  type BucketItem,
} from './distributed-data-parallel/buckets.ts';
export { ddp } from './distributed-data-parallel/ddp.ts';
export {
  DistributedDataParallel,
  type DistributedDataParallelOptions,
} from './distributed-data-parallel/distributed-data-parallel.ts';
export { fsdp, type FullyShardedDataParallelOptions } from './fully-sharded-data-parallel/fsdp.ts';
export { constructSharded, type ConstructShardedOptions } from './sharding/construct-sharded.ts';
export type { CutRule } from './sharding/cut.ts';
export { fullStateDict } from './sharding/full-state-dict.ts';
export { ShardedModel } from './sharding/sharded-model.ts';
export { ShardedParameter } from './sharding/sharded-parameter.ts';
export { outermostListMember, oneUnit, type UnitOf } from './sharding/unit-names.ts';
export { zero, type ZeroOptions, type ZeroStage } from './zero/zero.ts';
export { explain, formatLayout } from './explain.ts';
export { parallelize, planFor } from './parallelize.ts';
export { partitionParameters } from './zero-redundancy-optimizer/partition.ts';
export {
  ZeroRedundancyOptimizer,
  type OptimizerClass,
  type ZeroRedundancyOptions,
} from './zero-redundancy-optimizer/zero-redundancy-optimizer.ts';
