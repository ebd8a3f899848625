import type { Node } from '../graph/node.ts';
import { elementCount, formatShape, sameShape } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';
import { ShapeError, TensorStateError } from '../spec/errors.ts';

/**
 * Throws ShapeError if the tensor has several elements and no gradient is given, or if the gradient has another shape.
 * Throws TensorStateError if nothing requires a gradient, or if the tensor was made of gradients.
 */
export function checkBackward(root: Node, gradient: Shape | undefined): void {
  const { shape } = root;
  if (gradient === undefined && elementCount(shape) !== 1) {
    throw new ShapeError(
      {
        asked: `backward() from a tensor of shape ${formatShape(shape)}`,
        found: `${elementCount(shape)} elements`,
        todo: 'Reduce it to a scalar first, for example with .mean() or .sum(), or give its gradient',
      },
      { shape },
    );
  }
  if (gradient !== undefined && !sameShape(gradient, shape)) {
    throw new ShapeError(
      {
        asked: `backward() from a tensor of shape ${formatShape(shape)}`,
        found: `a gradient of shape ${formatShape(gradient)}`,
        todo: 'Give a gradient of the shape of the tensor',
      },
      { shape, gradient },
    );
  }
  if (root.ofGradient) throw secondOrder(root);
  if (root.requiresGrad) return;
  throw new TensorStateError(
    {
      asked: 'backward()',
      found: 'no tensor that requires a gradient below it',
      todo: 'Check that parameters were used that are not frozen, and that it was not built under noGrad or after detach()',
    },
    { op: root.op },
  );
}

function secondOrder({ op }: Node): TensorStateError {
  return new TensorStateError(
    {
      asked: 'backward() of a scalar in which a gradient stands (x.grad)',
      found: 'that gradient is not differentiable: a gradient penalty would have no effect',
      todo: 'Take it by autograd.grad(loss, [x], { createGraph: true }), or use x.grad.detach()',
    },
    { op },
  );
}
