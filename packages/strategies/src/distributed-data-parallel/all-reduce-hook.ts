import { allReduce, type Tensor } from '@shardwise/core/extend';
import type { CommHook } from './comm-hook.ts';
import type { GradBucket } from './grad-bucket.ts';
import { reduceBucket } from './reduce-bucket.ts';

/**
 * Averages a bucket over the ranks as one message. This is also done if no hook is given. `predivideFactor` divides
 * before the sum and `ranks / predivideFactor` divides after it, so that sums of many ranks stay in range (DeepSpeed's
 * gradient_predivide_factor). `replicas` is a second axis to average over.
 */
export function allReduceHook(predivideFactor = 1, replicas?: string): CommHook {
  const hook = (bucket: GradBucket): readonly Tensor[] => {
    if (predivideFactor !== 1) {
      const divided = bucket.gradients.map((gradient) => gradient.div(predivideFactor));
      const sums = reduceBucket(bucket, divided, 'sum');
      return sums.map((sum) => sum.mul(predivideFactor / bucket.ranks));
    }
    const { index, pass } = bucket;
    const means = reduceBucket(bucket, bucket.gradients, 'avg');
    if (replicas === undefined) return means;
    return means.map((mean) => allReduce(mean, replicas, { reduce: 'avg', bucket: index, pass }));
  };
  return Object.assign(hook, { sentAs: 'own' as const });
}
