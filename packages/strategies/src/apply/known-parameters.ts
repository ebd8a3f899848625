import { ConfigError, type Module, type Parameter } from '@shardwise/core/extend';

/** The parameters that a model has when a strategy is applied to it. These are the ones whose gradients ranks share. */
export class KnownParameters {
  readonly #strategy: string;
  readonly #model: Module;
  readonly #known: ReadonlySet<Parameter>;

  constructor(strategy: string, model: Module) {
    this.#strategy = strategy;
    this.#model = model;
    this.#known = new Set(model.parameters());
  }

  /** Throws ConfigError if the model has got other parameters since, which each rank would train by itself. */
  check(): void {
    const added = this.#model.namedParameters().filter(([, each]) => !this.#known.has(each));
    if (added.length === 0) return;
    const names = added.map(([name]) => name);
    throw new ConfigError(
      {
        asked: `a forward pass of a model under ${this.#strategy}`,
        found: `${names.join(', ')} was put into it after the strategy had been applied, so each rank would train its own copy`,
        todo: 'Put all parameters into the model before parallelize()',
      },
      { parameters: names },
    );
  }
}
