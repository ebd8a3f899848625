import type { Node } from '../graph/node.ts';
import { formatShape } from '../base/shape.ts';
import type { DType, Shape } from '../spec/dtype.ts';
import { TensorStateError } from '../spec/errors.ts';

/**
 * How the ranks share a tensor out. For expressions the tensor is the whole: its shape, its value, its gradient, and
 * values that are assigned to it. What reads the whole is a collective, which all ranks must do, in the same order.
 */
export interface Placement<Part = object> {
  /** The leaf that this rank keeps and that optimizers update. Its layout says which elements of the whole it has. */
  readonly part: Part;
  /** The dtype of what `read` returns now. */
  readonly dtype: DType;
  /** Returns the node that one expression reads. Gradients arrive at it. Shape: -> whole. */
  read(): Node;
  /** Makes the whole of a node with the layout of the part. No gradient flows through it. Shape: part -> whole. */
  wholeOf(part: Node): Node;
  /** Returns what this rank keeps of a whole. No gradient flows through it. Shape: whole -> part. */
  partOf(whole: Node): Node;
  /** Returns the error for a hook on the gradient of the whole, which no rank has. Shape: that of the whole. */
  hookError(shape: Shape): Error;
}

/** The error for a hook on the gradient of a parameter of this shape that ranks share out. */
export function gradientHookError(shape: Shape): TensorStateError {
  return new TensorStateError(
    {
      asked: `registerHook on a parameter of shape ${formatShape(shape)}`,
      found:
        'a strategy that shares it out over the ranks, where there is no gradient of the whole to change',
      todo: 'Use registerPostAccumulateGradHook(), or hook a value that the model computes',
    },
    { shape },
  );
}
