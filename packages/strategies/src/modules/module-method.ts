import type { Module } from '@shardwise/core/extend';

/** A method of a module, with its inputs as a list. */
export type Method = (inputs: readonly unknown[]) => unknown;

/** Returns the present method of a module, or undefined if it has none of this name. */
export function methodOf(module: Module, name: string): Method | undefined {
  const method: unknown = Reflect.get(module, name);
  return typeof method === 'function'
    ? (inputs) => Reflect.apply(method, module, inputs)
    : undefined;
}

/** Redirects every call of a module's method to `method`. */
export function replaceMethod(module: Module, name: string, method: Method): void {
  Object.defineProperty(module, name, {
    value: (...inputs: unknown[]) => method(inputs),
    configurable: true,
    enumerable: false,
  });
}
