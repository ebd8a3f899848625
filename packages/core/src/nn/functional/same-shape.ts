import { formatShape, sameShape } from '../../base/shape.ts';
import { ShapeError } from '../../spec/errors.ts';
import { requireTensors } from '../../tensor/check-arguments.ts';
import type { Tensor } from '../../tensor/tensor.ts';

/**
 * Throws ShapeError if the shapes of input and target differ. A loss that broadcasts them hides a mistake in most
 * programs.
 */
export function requireSameShape(operation: string, input: Tensor, target: Tensor): void {
  requireTensors(operation, { input, target });
  if (sameShape(input.shape, target.shape)) return;
  throw new ShapeError(
    {
      asked: `${operation} of shapes ${formatShape(input.shape)} and ${formatShape(target.shape)}`,
      found: 'shapes that differ',
      todo: 'Give input and target one shape (reshape or expand)',
    },
    { input: input.shape, target: target.shape },
  );
}
