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
export { explain, formatLayout } from './explain.ts';
export { parallelize, planFor } from './parallelize.ts';
