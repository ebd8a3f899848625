import { formatShape } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';
import { TensorStateError } from '../spec/errors.ts';

/** The error for a tensor that its model had as `parameter` before another one took its place. */
export function replacedError(parameter: string, shape: Shape): TensorStateError {
  return new TensorStateError(
    {
      asked: `to use a parameter of shape ${formatShape(shape)}`,
      found: `parallelize() or to() has put another one in its place, which the model has as '${parameter}'`,
      todo: 'Make optimizers after parallelize() and to(), and take parameters from the model',
    },
    { parameter, shape },
  );
}

/** The error for a tensor without a gradient. */
export function notTrained(asked: string, shape: Shape): TensorStateError {
  return new TensorStateError(
    {
      asked: `${asked} of a tensor of shape ${formatShape(shape)}`,
      found: 'it does not require a gradient',
      todo: 'Call requiresGrad_() first',
    },
    { shape },
  );
}

/** The error for an operator of the language that asks a tensor for a number. `name` is that of the tensor's class. */
export function noNumber(name: string, shape: Shape): TensorStateError {
  return new TensorStateError(
    {
      asked: `a number, of a ${name} of shape ${formatShape(shape)}`,
      found: 'operators cannot wait for it',
      todo: 'Write `await x.item()`, or x.mul(2) and x.lt(0.1)',
    },
    { shape },
  );
}
