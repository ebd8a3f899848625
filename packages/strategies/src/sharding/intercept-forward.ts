import { ConfigError, type Module } from '@shardwise/core';

/**
 * Has every call of this module's `forward`, by whomever, go through `around`. Returns how to undo
 * that. Throws ConfigError for a module without forward pass.
 */
export function interceptForward(
  module: Module,
  around: (forward: () => unknown) => unknown,
): () => void {
  const forward: unknown = Reflect.get(module, 'forward');
  if (typeof forward !== 'function') {
    throw new ConfigError(
      {
        asked: `to shard ${module.constructor.name} as a unit`,
        found: 'it has no forward pass of its own',
        todo: 'Make units of modules whose forward is called',
      },
      { module: module.constructor.name },
    );
  }
  Object.defineProperty(module, 'forward', {
    value: (...inputs: unknown[]) => around(() => Reflect.apply(forward, module, inputs)),
    configurable: true,
    enumerable: false,
  });
  return () => void Reflect.deleteProperty(module, 'forward');
}
