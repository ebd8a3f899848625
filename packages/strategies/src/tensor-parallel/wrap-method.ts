import { LayoutError, type Module, Tensor } from '@shardwise/core/extend';
import { type Method, methodOf, replaceMethod } from '../modules/module-method.ts';

/** Makes every call of a module's method go through `around`. */
export function wrapMethod(
  module: Module,
  name: string,
  around: (inputs: readonly unknown[], method: Method) => unknown,
): void {
  const method = methodOf(module, name);
  if (method === undefined) {
    throw new LayoutError(
      {
        asked: `tensor parallelism around ${module.constructor.name}.${name}()`,
        found: 'no method of this name',
        todo: 'Name modules whose forward is called',
      },
      { module: module.constructor.name, name },
    );
  }
  replaceMethod(module, name, (inputs) => around(inputs, method));
}

/** Throws LayoutError for a value that is not a tensor. */
export function requireTensor(value: unknown, what: string): Tensor {
  if (value instanceof Tensor) return value;
  throw new LayoutError(
    {
      asked: `tensor parallelism of ${what}`,
      found: `a value of type ${typeof value}`,
      todo: 'Use styles on modules that take and return tensors',
    },
    { what },
  );
}
