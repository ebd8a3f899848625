import { allReduce, type Tensor } from '@shardwise/core/extend';
import type { GradBucket } from './grad-bucket.ts';

/**
 * All-reduces values as one message. Their nodes are neighbours in the program, so the nodes that they read must have
 * been added to it before. Shapes: N -> N each.
 */
export function reduceBucket(
  { axis, index, pass }: GradBucket,
  values: readonly Tensor[],
  reduce: 'sum' | 'avg',
): Tensor[] {
  return values.map((value) => allReduce(value, axis, { reduce, bucket: index, pass }));
}
