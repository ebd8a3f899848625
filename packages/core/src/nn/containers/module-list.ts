import { ConfigError, describeValue } from '../../spec/errors.ts';
import { Module, type Named } from '../module/module.ts';

/** A list of modules, named 0, 1, …. */
export class ModuleList<M extends Module = Module> extends Module implements Iterable<M> {
  #modules: M[];

  /** Throws ConfigError for a value that is not a module. */
  constructor(modules: Iterable<M> = []) {
    super();
    const { name } = this.constructor;
    if (!isIterable(modules)) throw noModule(name, modules);
    this.#modules = Array.from(modules, (module) => required(name, module));
  }

  get length(): number {
    return this.#modules.length;
  }

  /** The module at an index. Negative indices count from the end. */
  at(index: number): M | undefined {
    return this.#modules.at(index);
  }

  /** Throws ConfigError for a value that is not a module. */
  append(module: M): this {
    this.#modules.push(required(this.constructor.name, module));
    return this;
  }

  /**
   * Replaces the module at an index (`list[index] = module` in PyTorch). Negative indices count from the end. Throws
   * ConfigError for a value that is not a module, and RangeError for an index outside the list.
   */
  set(index: number, module: M): this {
    this.#modules = this.#modules.with(index, required(this.constructor.name, module));
    return this;
  }

  [Symbol.iterator](): Iterator<M> {
    return this.#modules[Symbol.iterator]();
  }

  /** The modules of this list. */
  override namedChildren(): Named<M>[] {
    return this.#modules.map((module, index) => [String(index), module]);
  }
}

function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.iterator in value;
}

function required<M extends Module>(list: string, module: M): M {
  if (module instanceof Module) return module;
  throw noModule(list, module);
}

function noModule(list: string, found: unknown): ConfigError {
  const todo =
    list === 'ModuleList'
      ? 'Give it a list of modules: new nn.ModuleList([a, b])'
      : 'Give it modules one by one: new nn.Sequential(a, b), or new nn.Sequential(...layers)';
  return new ConfigError({
    asked: `a ${list} of modules`,
    found: `${describeValue(found)} among them`,
    todo,
  });
}
