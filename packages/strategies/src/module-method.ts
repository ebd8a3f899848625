import type { Module } from '@shardwise/core/extend';

/** A method of a module, with its inputs as a list. */
export type Method = (inputs: readonly unknown[]) => unknown;

/** The method that a module has now; undefined where it has none of that name. */
export function methodOf(module: Module, name: string): Method | undefined {
  const method: unknown = Reflect.get(module, name);
  return typeof method === 'function'
    ? (inputs) => Reflect.apply(method, module, inputs)
    : undefined;
}

/** Has every call of a module's method, by whomever, go to `method`. */
export function replaceMethod(module: Module, name: string, method: Method): void {
  Object.defineProperty(module, name, {
    value: (...inputs: unknown[]) => method(inputs),
    configurable: true,
    enumerable: false,
  });
}
