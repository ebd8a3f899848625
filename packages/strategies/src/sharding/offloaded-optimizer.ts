import {
  checkOptions,
  currentSession,
  dtypes,
  elementCount,
  endStep,
  type Module,
  type Optimizer,
  type OptimizerSettings,
  type OptimizerStateDict,
  option,
  type OptionRules,
  type PageStore,
  type Parameter,
  type ParameterState,
  type ParamGroup,
  type StepOptions,
  type Tensor,
} from '@shardwise/core';

export interface OffloadedOptimizerOptions {
  /** Where optimizer states are kept between updates, as by `hostPages()` or `filePages(directory)`. */
  readonly states: PageStore;
  /** Where parameters are kept between their uses. Default: on the device. */
  readonly parameters?: PageStore;
  /**
   * Where gradients are kept from when they are reduced until the update, accumulated over passes or
   * not. Default: on the device.
   */
  readonly gradients?: PageStore;
  /** Of this rank's parts of parameters, updated in one run: their states are on the device at once. Default: 64 MiB. */
  readonly chunkBytes?: number;
}

const optionRules: OptionRules<OffloadedOptimizerOptions> = {
  states: option.required(option.object()),
  parameters: option.object(),
  gradients: option.object(),
  chunkBytes: option.positive,
};

const defaultChunkBytes = 64 * 1024 * 1024;

/**
 * Has an optimizer keep its states, and gradients if asked, outside the device (Ren et al. 2021,
 * "ZeRO-Offload"): a step updates some parameters at a time, each time in a run of its own.
 */
export class OffloadedOptimizer<Settings extends OptimizerSettings> {
  readonly optimizer: Optimizer<Settings>;
  readonly #names: ReadonlyMap<Parameter, string>;
  readonly #options: OffloadedOptimizerOptions;
  readonly #chunks: readonly ReadonlySet<unknown>[];

  /** `optimizer` updates parameters of `model`. Throws ConfigError for options out of range. */
  constructor(model: Module, optimizer: Optimizer<Settings>, options: OffloadedOptimizerOptions) {
    const { chunkBytes = defaultChunkBytes, gradients } = options;
    checkOptions('OffloadedOptimizer', options, optionRules);
    const named = model.namedParameters();
    this.optimizer = optimizer;
    this.#options = options;
    this.#names = new Map(named.map(([name, parameter]) => [parameter, name]));
    if (gradients !== undefined) {
      for (const [name, parameter] of named) {
        parameter.pageGradient(`${name} gradient`, gradients);
      }
    }
    this.#chunks = chunksOf(
      named.map(([, parameter]) => parameter),
      chunkBytes,
    );
  }

  get paramGroups(): readonly ParamGroup<Settings>[] {
    return this.optimizer.paramGroups;
  }

  stateOf(parameter: Tensor): ParameterState | undefined {
    return this.optimizer.stateOf(parameter);
  }

  /** States are outside the device again after the next step. Throws CheckpointError as Optimizer. */
  loadStateDict(dict: OptimizerStateDict<Settings>): void {
    this.optimizer.loadStateDict(dict);
  }

  zeroGrad(): void {
    this.optimizer.zeroGrad();
  }

  /** Computes what is pending (loss, gradients), then the updates. Returns whether it made them, as Optimizer. */
  async step(options: StepOptions = {}): Promise<boolean> {
    const session = currentSession();
    options.skipIf?.retain();
    await session.realize([]);
    const skipped: (() => void)[] = [];
    for (const chunk of this.#chunks) {
      const updates = (parameter: Tensor): boolean => chunk.has(parameter);
      skipped.push(this.optimizer.buildStep({ ...options, updates }));
      try {
        await session.realize([]);
      } catch (error) {
        // The chunks before have been updated.
        throw skipped.length > 1 ? session.refuse(error) : error;
      }
      for (const [parameter, name] of this.#names) {
        if (chunk.has(parameter)) await this.#pageOut(parameter, name);
      }
    }
    return endStep(options, () => skipped.forEach((uncount) => uncount()));
  }

  async #pageOut(parameter: Parameter, name: string): Promise<void> {
    const { states, parameters } = this.#options;
    const kept = this.optimizer.stateOf(parameter)?.tensors ?? [];
    for (const [kind, tensor] of kept) await tensor.pageOut(`${name} ${kind}`, states);
    if (parameters !== undefined) await parameter.pageOut(name, parameters);
  }
}

function chunksOf(parameters: readonly Parameter[], limitBytes: number): Set<unknown>[] {
  const chunks: Set<unknown>[] = [];
  let bytes = limitBytes;
  for (const parameter of parameters) {
    const { shape, dtype } = parameter;
    const own = elementCount(shape) * dtypes[dtype].bytes;
    if (bytes + own > limitBytes) {
      chunks.push(new Set());
      bytes = 0;
    }
    bytes += own;
    chunks.at(-1)?.add(parameter);
  }
  return chunks;
}
