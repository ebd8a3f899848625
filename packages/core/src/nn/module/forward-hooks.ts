import { synchronously } from '../../ambient.ts';
import { ConfigError } from '../../spec/errors.ts';
import { type FullBackwardHook, withBackwardHooks } from './backward-hooks.ts';

/** A function that is called with the inputs of forward(). If it returns a list, this list replaces the inputs. */
export type ForwardPreHook<M> = (
  module: M,
  inputs: readonly unknown[],
) => readonly unknown[] | undefined | void;

/**
 * A function that is called with the inputs and the output of forward(). If it returns a value, it replaces the output.
 */
export type ForwardHook<M> = (module: M, inputs: readonly unknown[], output: unknown) => unknown;

/** The hooks that run around forward() of a module. */
export class ForwardHooks<M extends object> {
  readonly #before = new Set<ForwardPreHook<M>>();
  readonly #after = new Set<ForwardHook<M>>();
  readonly #backward = new Set<FullBackwardHook<M>>();
  #isInstalled = false;

  addBefore(module: M, hook: ForwardPreHook<M>): () => void {
    return this.#add(module, this.#before, hook);
  }

  addAfter(module: M, hook: ForwardHook<M>): () => void {
    return this.#add(module, this.#after, hook);
  }

  addBackward(module: M, hook: FullBackwardHook<M>): () => void {
    return this.#add(module, this.#backward, hook);
  }

  #add<T extends object>(module: M, hooks: Set<T>, hook: T): () => void {
    this.#install(module);
    hooks.add(hook);
    return () => hooks.delete(hook);
  }

  /**
   * Puts the hooks around forward(). They are never taken off again, because others may have wrapped forward() since.
   */
  #install(module: M): void {
    if (this.#isInstalled) return;
    const forward: unknown = Reflect.get(module, 'forward');
    if (typeof forward !== 'function') {
      throw new ConfigError(
        {
          asked: `a forward hook of ${module.constructor.name}`,
          found: 'no method forward',
          todo: 'Hook a module whose forward() is called',
        },
        { module: module.constructor.name },
      );
    }
    this.#isInstalled = true;
    const value = (...given: unknown[]): unknown => {
      let inputs: readonly unknown[] = given;
      for (const hook of this.#before) {
        inputs = synchronously('a forward hook', () => hook(module, inputs)) ?? inputs;
      }
      const call = (changed: readonly unknown[]): unknown =>
        Reflect.apply(forward, module, changed);
      let output = withBackwardHooks(module, this.#backward, inputs, call);
      for (const hook of this.#after) {
        const before = output;
        output = synchronously('a forward hook', () => hook(module, inputs, before)) ?? before;
      }
      return output;
    };
    // The property must not be enumerable: the enumerable fields of a module are searched for members.
    Object.defineProperty(module, 'forward', { value, configurable: true, enumerable: false });
  }
}
