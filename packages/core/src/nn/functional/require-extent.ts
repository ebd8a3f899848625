import { formatShape } from '../../base/shape.ts';
import { ShapeError } from '../../spec/errors.ts';
import type { Tensor } from '../../tensor/tensor.ts';

/**
 * Throws ShapeError for images or kernels without elements. `tensors` is by argument name. Shape: each [.., .., sizes of
 * the window's dims].
 */
export function requireExtent(operation: string, tensors: Readonly<Record<string, Tensor>>): void {
  for (const [name, { shape }] of Object.entries(tensors)) {
    if (shape.slice(2).every((size) => size > 0)) continue;
    throw new ShapeError(
      {
        asked: `${operation} with ${name} of shape ${formatShape(shape)}`,
        found: 'a size of 0',
        todo: 'Use sizes from 1 on in all dims after the second one',
      },
      { operation, argument: name, shape },
    );
  }
}
