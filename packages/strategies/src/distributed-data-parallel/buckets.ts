import { type DType, dtypes, elementCount, type Shape } from '@shardwise/core/extend';

export interface BucketItem {
  readonly shape: Shape;
  readonly dtype: DType;
}

export interface Bucket {
  /** The positions of the bucket's items in the list of items, ascending. */
  readonly indices: readonly number[];
  /** The limit that the bucket was filled against. */
  readonly limitBytes: number;
}

export const FIRST_BUCKET_BYTES: number = 1024 * 1024;
export const BUCKET_BYTES: number = 25 * 1024 * 1024;

/**
 * Assigns items to buckets by PyTorch's rule (compute_bucket_assignment_by_size). Items of one dtype fill a bucket
 * until it holds at least its limit. The next bucket of the dtype has the next limit, and the last limit repeats.
 * Buckets come in the order of their first items.
 */
export function assignBuckets(
  items: readonly BucketItem[],
  limitsBytes: readonly number[],
): Bucket[] {
  const open = new Map<DType, { indices: number[]; bytes: number; closed: number }>();
  const buckets: Bucket[] = [];
  const limitOf = (closed: number): number =>
    limitsBytes[Math.min(closed, limitsBytes.length - 1)] ?? 0;
  items.forEach((item, index) => {
    const bucket = open.get(item.dtype) ?? { indices: [], bytes: 0, closed: 0 };
    open.set(item.dtype, bucket);
    bucket.indices.push(index);
    bucket.bytes += elementCount(item.shape) * dtypes[item.dtype].bytes;
    const limitBytes = limitOf(bucket.closed);
    if (bucket.bytes < limitBytes) return;
    buckets.push({ indices: bucket.indices, limitBytes });
    open.set(item.dtype, { indices: [], bytes: 0, closed: bucket.closed + 1 });
  });
  for (const { indices, closed } of open.values()) {
    if (indices.length > 0) buckets.push({ indices, limitBytes: limitOf(closed) });
  }
  return buckets.sort((a, b) => (a.indices[0] ?? 0) - (b.indices[0] ?? 0));
}
