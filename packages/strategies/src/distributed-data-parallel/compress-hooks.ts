import type { DType, Tensor } from '@shardwise/core/extend';
import type { CommHook } from './comm-hook.ts';
import type { GradBucket } from './grad-bucket.ts';
import { reduceBucket } from './reduce-bucket.ts';

/** Sends gradients as f16, in half of the bytes (PyTorch's fp16_compress_hook). */
export const f16CompressHook: CommHook = compressHook('f16');

/** Sends gradients as bf16, in half of the bytes and with the range of f32 (PyTorch's bf16_compress_hook). */
export const bf16CompressHook: CommHook = compressHook('bf16');

/** Divides before it rounds, so that the sum stays in the range of f16. */
function compressHook(dtype: DType): CommHook {
  const hook = (bucket: GradBucket): readonly Tensor[] => {
    const narrow = bucket.gradients.map((gradient) => gradient.div(bucket.ranks).to(dtype));
    const sums = reduceBucket(bucket, narrow, 'sum');
    return sums.map((sum, index) => sum.to(bucket.gradients[index]?.dtype ?? 'f32'));
  };
  return Object.assign(hook, { sentAs: dtype });
}
