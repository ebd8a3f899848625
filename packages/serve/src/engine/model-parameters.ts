import { Module, type Parameter } from '@shardwise/core/extend';

/** A module, and what its fields held when they were looked at. */
interface Seen {
  readonly module: Module;
  readonly members: readonly unknown[];
}

/**
 * The parameters of modules, whoever replaces modules or parameters. To find them takes as long as some layers, so it is
 * done again only if a field of one of the modules has another value.
 */
export class ModelParameters {
  readonly #modules: readonly Module[];
  #seen: readonly Seen[] = [];
  #found: readonly Parameter[] = [];

  constructor(modules: readonly Module[]) {
    this.#modules = modules;
    this.#find();
  }

  /** Those that the modules had at the last `find`. The same list as before if they are the same ones. */
  get found(): readonly Parameter[] {
    return this.#found;
  }

  /** Looks for parameters that have come or gone. */
  find(): void {
    const isSame = this.#seen.every(({ module, members }) => isEqual(membersOf(module), members));
    if (!isSame) this.#find();
  }

  #find(): void {
    const modules = this.#modules.flatMap((each) => each.namedModules());
    this.#seen = modules.map(([, module]) => ({ module, members: membersOf(module) }));
    const found = this.#modules.flatMap((module) => module.parameters());
    if (!isEqual(found, this.#found)) this.#found = found;
  }
}

function isEqual(some: readonly unknown[], others: readonly unknown[]): boolean {
  return some.length === others.length && some.every((each, at) => Object.is(each, others[at]));
}

/** The values of the fields of a module, and the children that a list or a dict of modules has elsewhere. */
function membersOf(module: Module): readonly unknown[] {
  const fields: readonly unknown[] = Object.values(module);
  return module.namedChildren === Module.prototype.namedChildren
    ? fields
    : [...fields, ...module.children];
}
