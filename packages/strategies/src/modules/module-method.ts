import { ConfigError, type Module } from '@shardwise/core/extend';

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

/** Returns a module's forward(). Throws ConfigError for a module without forward pass. */
export function forwardOf(module: Module): Method {
  const forward = methodOf(module, 'forward');
  if (forward !== undefined) return forward;
  throw new ConfigError(
    {
      asked: `to shard ${module.constructor.name} as a unit`,
      found: 'it has no forward pass of its own',
      todo: 'Make units of modules whose forward is called',
    },
    { module: module.constructor.name },
  );
}

/**
 * Makes every call of a module's `forward` go through `around`. Throws ConfigError for a module without forward pass.
 */
export function interceptForward(
  module: Module,
  around: (forward: Method, inputs: readonly unknown[]) => unknown,
): void {
  const forward = forwardOf(module);
  replaceMethod(module, 'forward', (inputs) => around(forward, inputs));
}
