import { ConfigError, type Module } from '@shardwise/core';

/** Throws ConfigError for a module without forward pass. */
export function forwardOf(module: Module): (...inputs: unknown[]) => unknown {
  const forward: unknown = Reflect.get(module, 'forward');
  if (typeof forward === 'function') {
    return (...inputs) => Reflect.apply(forward, module, inputs);
  }
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
 * Has every call of this module's `forward`, by whomever, go through `around`. Throws ConfigError
 * for a module without forward pass.
 */
export function interceptForward(
  module: Module,
  around: (forward: (...inputs: unknown[]) => unknown, inputs: unknown[]) => unknown,
): void {
  const forward = forwardOf(module);
  Object.defineProperty(module, 'forward', {
    value: (...inputs: unknown[]) => around(forward, inputs),
    configurable: true,
    enumerable: false,
  });
}
