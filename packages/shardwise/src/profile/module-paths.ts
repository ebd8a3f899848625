import { ConfigError, constructions, Module } from '@shardwise/core/extend';

/** Knows the modules that a program constructs, and names them. */
export class ProgramModules {
  readonly #modules = new Set<WeakRef<Module>>();
  readonly #onModule: (module: Module) => void;

  /** `onModule` is called with each module from now on. Throws ConfigError if another profiler runs. */
  constructor(onModule: (module: Module) => void) {
    if (Object.hasOwn(constructions, 'begin')) {
      throw new ConfigError({
        asked: 'a profiler of steps',
        found: 'another one runs on this rank',
        todo: 'Stop the other one first. init({ profile }) and shardwise profile have one until close()',
      });
    }
    this.#onModule = onModule;
    const begin = constructions.begin.bind(constructions);
    // A hook in the constructor of modules would be loaded by every page, so the record of constructions is wrapped.
    constructions.begin = (object, about) => {
      if (object instanceof Module) this.#note(object);
      begin(object, about);
    };
  }

  /** The modules that are alive. */
  all(): readonly Module[] {
    const alive: Module[] = [];
    for (const reference of this.#modules) {
      const module = reference.deref();
      if (module === undefined) this.#modules.delete(reference);
      else alive.push(module);
    }
    return alive;
  }

  close(): void {
    Reflect.deleteProperty(constructions, 'begin');
  }

  #note(module: Module): void {
    this.#modules.add(new WeakRef(module));
    this.#onModule(module);
  }

  /**
   * Returns what names a module: the class of the outermost module that it is a member of, and its path there, such as
   * `GPT.blocks.0.attention`. Modules of equal names, such as two models of one class, have numbers: `Linear #2`.
   */
  paths(): (module: Module) => string {
    const modules = this.all();
    const below = new Set(modules.flatMap((module) => membersOf(module).map(([, each]) => each)));
    const names = new Map<Module, string>();
    const counts = new Map<string, number>();
    for (const root of modules) {
      if (below.has(root)) continue;
      const type = root.constructor.name;
      const number = (counts.get(type) ?? 0) + 1;
      counts.set(type, number);
      const name = number === 1 ? type : `${type} #${number}`;
      names.set(root, name);
      for (const [path, module] of membersOf(root)) {
        if (!names.has(module)) names.set(module, `${name}.${path}`);
      }
    }
    return (module) => names.get(module) ?? module.constructor.name;
  }
}

/** The modules below a module. Those of a module that hides members are not known. */
function membersOf(module: Module): readonly (readonly [string, Module])[] {
  try {
    return module.namedModules().slice(1);
  } catch (error) {
    if (error instanceof ConfigError) return [];
    throw error;
  }
}
