import { LayoutError, type Module, Tensor } from '@shardwise/core';

/** Has every call of a module's method, by whomever, go through `around`. */
export function wrapMethod(
  module: Module,
  name: string,
  around: (inputs: readonly unknown[], method: (inputs: readonly unknown[]) => unknown) => unknown,
): void {
  const method: unknown = Reflect.get(module, name);
  if (typeof method !== 'function') {
    throw new LayoutError(
      {
        asked: `tensor parallelism around ${module.constructor.name}.${name}()`,
        found: 'no method of this name',
        todo: 'Name modules whose forward is called',
      },
      { module: module.constructor.name, name },
    );
  }
  const run = (inputs: readonly unknown[]): unknown => Reflect.apply(method, module, inputs);
  Object.defineProperty(module, name, {
    value: (...inputs: unknown[]) => around(inputs, run),
    configurable: true,
    enumerable: false,
  });
}

/** Throws LayoutError for another value than a tensor. */
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
