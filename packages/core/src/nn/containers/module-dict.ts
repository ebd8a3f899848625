import { ConfigError, describeValue } from '../../spec/errors.ts';
import { Module, type Named } from '../module/module.ts';

/** Modules by name, in the order in which the names were set. */
export class ModuleDict<M extends Module = Module> extends Module implements Iterable<Named<M>> {
  readonly #modules = new Map<string, M>();

  /** Throws the errors of set(). */
  constructor(modules: Readonly<Record<string, M>> = {}) {
    super();
    const given: unknown = modules;
    if (typeof given !== 'object' || given === null) throw noModule('modules', given);
    for (const [name, module] of Object.entries(modules)) this.set(name, module);
  }

  get length(): number {
    return this.#modules.size;
  }

  has(name: string): boolean {
    return this.#modules.has(name);
  }

  get(name: string): M | undefined {
    return this.#modules.get(name);
  }

  /** Throws ConfigError for a value that is not a module, and for names that state dicts cannot have. */
  set(name: string, module: M): this {
    if (!(module instanceof Module)) throw noModule(`'${name}'`, module);
    if (name === '' || name.includes('.')) throw badName(name);
    this.#modules.set(name, module);
    return this;
  }

  delete(name: string): boolean {
    return this.#modules.delete(name);
  }

  [Symbol.iterator](): Iterator<Named<M>> {
    return this.#modules[Symbol.iterator]();
  }

  /** The modules of this dict. */
  override namedChildren(): Named<M>[] {
    return [...this.#modules];
  }
}

function noModule(name: string, found: unknown): ConfigError {
  return new ConfigError({
    asked: 'a ModuleDict of modules',
    found: `${describeValue(found)} as ${name}`,
    todo: 'Give it modules by name: new nn.ModuleDict({ first: a, second: b })',
  });
}

function badName(name: string): ConfigError {
  return new ConfigError(
    {
      asked: `a ModuleDict with the name '${name}'`,
      found: 'a name that is empty or has a point, which separates names in state dicts',
      todo: 'Use another name',
    },
    { name },
  );
}
