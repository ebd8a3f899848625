import { allReduce, type DType, type Tensor } from '@shardwise/core';
import type { CommHook } from './comm-hook.ts';
import type { GradBucket } from './grad-bucket.ts';

/**
 * The mean over the ranks, as one message: what is done without a hook. `predivideFactor` divides
 * before the sum and `ranks / predivideFactor` after it, so that sums of many ranks stay in range
 * (DeepSpeed's gradient_predivide_factor).
 */
export function allReduceHook(predivideFactor = 1): CommHook {
  return (bucket) => {
    if (predivideFactor === 1) return averages(bucket, bucket.gradients);
    const divided = bucket.gradients.map((gradient) => gradient.div(predivideFactor));
    const sums = reduceAll(bucket, divided, 'sum');
    return sums.map((sum) => sum.mul(predivideFactor / bucket.ranks));
  };
}

/** Gradients travel as f16: half the bytes (PyTorch's fp16_compress_hook). */
export const f16CompressHook: CommHook = compressHook('f16');

/** Gradients travel as bf16: half the bytes, the range of f32 (PyTorch's bf16_compress_hook). */
export const bf16CompressHook: CommHook = compressHook('bf16');

/** Divides before it rounds, so that a sum of f16 stays in range. */
function compressHook(dtype: DType): CommHook {
  return (bucket) => {
    const narrow = bucket.gradients.map((gradient) => gradient.div(bucket.ranks).to(dtype));
    const sums = reduceAll(bucket, narrow, 'sum');
    return sums.map((sum, index) => sum.to(bucket.gradients[index]?.dtype ?? 'f32'));
  };
}

/** The means of values over the ranks, as one message with the bucket's number. Shapes: N -> N each. */
export function averages(bucket: GradBucket, values: readonly Tensor[]): Tensor[] {
  return reduceAll(bucket, values, 'avg');
}

/** Nodes that follow each other in the program; what they read must have been written before. */
function reduceAll(
  { axis, index }: GradBucket,
  values: readonly Tensor[],
  reduce: 'sum' | 'avg',
): Tensor[] {
  return values.map((value) => allReduce(value, axis, { reduce, bucket: index }));
}
