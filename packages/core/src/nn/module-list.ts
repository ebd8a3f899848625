import { Module, type Named } from './module.ts';

/** Modules in order, named 0, 1, …. */
export class ModuleList<M extends Module = Module> extends Module implements Iterable<M> {
  readonly #modules: M[];

  constructor(modules: Iterable<M> = []) {
    super();
    this.#modules = [...modules];
  }

  get length(): number {
    return this.#modules.length;
  }

  /** Negative indices count from the end. */
  at(index: number): M | undefined {
    return this.#modules.at(index);
  }

  append(module: M): this {
    this.#modules.push(module);
    return this;
  }

  [Symbol.iterator](): Iterator<M> {
    return this.#modules[Symbol.iterator]();
  }

  override namedChildren(): Named<M>[] {
    return this.#modules.map((module, index) => [String(index), module]);
  }
}
