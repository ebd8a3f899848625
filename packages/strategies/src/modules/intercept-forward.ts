import { ConfigError, type Module } from '@shardwise/core/extend';
import { methodOf, replaceMethod, type Method } from './module-method.ts';

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
