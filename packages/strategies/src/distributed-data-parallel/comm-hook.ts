import {
  type DType,
  DTypeError,
  formatShape,
  sameShape,
  ShapeError,
  type Tensor,
} from '@shardwise/core/extend';
import type { GradBucket } from './grad-bucket.ts';

/**
 * Returns the gradients of a bucket as all ranks should get them, as expressions: one for each parameter, with
 * its shape and dtype. All ranks must build the same collectives.
 */
export interface CommHook {
  (bucket: GradBucket): readonly Tensor[];
  /**
   * The dtype of the message, if the hook all-reduces each bucket as one message. With it, a plan can tell the
   * bytes. 'own': the dtype of the gradients.
   */
  readonly sentAs?: DType | 'own';
}

/** Runs a hook. Throws ShapeError or DTypeError if its gradients do not fit the bucket's parameters. */
export function runHook(hook: CommHook, bucket: GradBucket): readonly Tensor[] {
  const { gradients, index } = bucket;
  const averaged = hook(bucket);
  if (averaged.length !== gradients.length) {
    throw new ShapeError(
      {
        asked: `${gradients.length} gradients of the communication hook for bucket ${index}`,
        found: `${averaged.length} of them`,
        todo: 'Return one gradient for each of bucket.gradients, in their order',
      },
      { bucket: index, gradients: gradients.length, found: averaged.length },
    );
  }
  averaged.forEach((found, position) => {
    const asked = gradients[position];
    if (asked === undefined) return;
    const message = {
      asked: `gradient ${position} of bucket ${index} as ${asked.dtype} ${formatShape(asked.shape)}`,
      found: `${found.dtype} ${formatShape(found.shape)} of the communication hook`,
      todo: 'Return gradients of the shapes and dtypes of bucket.gradients',
    };
    const fields = { bucket: index, position };
    if (!sameShape(found.shape, asked.shape)) throw new ShapeError(message, fields);
    if (found.dtype !== asked.dtype) throw new DTypeError(message, fields);
  });
  return averaged;
}
