import {
  checkpoint,
  type CheckpointOptions,
  ConfigError,
  isGradEnabled,
  type Module,
} from '@shardwise/core/extend';

/** Has the layers of a model checkpointed, each by itself. */
export class GradientCheckpointing {
  #options: CheckpointOptions | null = null;
  #isInstalled = false;

  /**
   * From now on, passes that record gradients checkpoint each layer with these options. Throws ConfigError for a model that does
   * not say what its layers are.
   */
  enable(model: Module, options: CheckpointOptions): void {
    if (!this.#isInstalled) this.#install(model);
    this.#options = options;
  }

  disable(): void {
    this.#options = null;
  }

  #install(model: Module): void {
    const layers = layersOf(model);
    if (layers.length === 0) {
      throw new ConfigError(
        {
          asked: `gradientCheckpointingEnable() of a ${model.constructor.name}`,
          found: 'a model that does not say what its layers are',
          todo: 'Call nn.checkpoint around the parts to compute again',
        },
        { model: model.constructor.name },
      );
    }
    this.#isInstalled = true;
    for (const layer of layers) this.#around(layer);
  }

  #around(layer: Module): void {
    const forward: unknown = Reflect.get(layer, 'forward');
    if (typeof forward !== 'function') return;
    const value = (...inputs: unknown[]): unknown => {
      const run = (): unknown => Reflect.apply(forward, layer, inputs);
      return this.#options === null || !isGradEnabled() ? run() : checkpoint(run, this.#options);
    };
    // The property must not be enumerable: the enumerable fields of a module are searched for members.
    Object.defineProperty(layer, 'forward', { value, configurable: true, enumerable: false });
  }
}

/** The units of a model, which are the members of lists. */
function layersOf(model: Module): readonly Module[] {
  const lists = new Set(model.division?.().units?.map((unit) => unit.replace(/\.\*$/, '')));
  return model
    .namedModules()
    .filter(([path]) => lists.has(path.slice(0, path.lastIndexOf('.'))))
    .map(([, module]) => module);
}
