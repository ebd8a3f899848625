import {
  checkOptions,
  currentSession,
  dtypes,
  elementCount,
  endStep,
  type Module,
  type Optimizer,
  option,
  type OptionRules,
  type PageStore,
  type StepOptions,
  type Tensor,
  requireModule,
} from '@shardwise/core/extend';
import { WrappedOptimizer } from './wrapped-optimizer.ts';

/** Options of `OffloadedOptimizer`. */
export interface OffloadedOptimizerOptions {
  /** Where optimizer states are kept between updates: `hostPages()` or `filePages(directory)`. */
  readonly states: PageStore;
  /** Where parameters are kept between their uses. Default: on the device. */
  readonly parameters?: PageStore;
  /**
   * Where gradients are kept from their reduction until the update, even if they are accumulated over several
   * passes. Default: on the device.
   */
  readonly gradients?: PageStore;
  /**
   * The bytes of parameters that one run updates. Their states are on the device at the same time. Default: 64
   * MiB.
   */
  readonly chunkBytes?: number;
}

const optionRules: OptionRules<OffloadedOptimizerOptions> = {
  states: option.required(option.object()),
  parameters: option.object(),
  gradients: option.object(),
  chunkBytes: option.positive,
};

const DEFAULT_CHUNK_BYTES = 64 * 1024 * 1024;

/**
 * Makes an optimizer keep its states, and optionally gradients, outside the device (Ren et al. 2021,
 * "ZeRO-Offload"). A step updates some parameters at a time, each time in a separate run. States that were
 * loaded are outside the device again after the next step.
 */
export class OffloadedOptimizer<Wrapped extends Optimizer> extends WrappedOptimizer<Wrapped> {
  /** The names of the model's parameters, and of other tensors that the optimizer updates. */
  readonly #names: Map<Tensor, string>;
  readonly #options: OffloadedOptimizerOptions;

  /**
   * Parameters have their names in `model`. The optimizer may update other tensors, too. Throws ConfigError for
   * options out of range.
   */
  constructor(model: Module, optimizer: Wrapped, options: OffloadedOptimizerOptions) {
    super('OffloadedOptimizer', optimizer);
    requireModule('OffloadedOptimizer', model);
    checkOptions('OffloadedOptimizer', options, optionRules);
    this.#options = options;
    this.#names = new Map(model.namedParameters().map(([name, parameter]) => [parameter, name]));
    for (const [parameter, name] of this.#names) this.#pageGradient(parameter, name);
    this.#nameOthers();
  }

  /**
   * Computes pending values (the loss, gradients) and then the updates. Returns whether it updated, as
   * Optimizer does.
   */
  async step(options: StepOptions = {}): Promise<boolean> {
    const session = currentSession();
    options.skipIf?.retain();
    this.#nameOthers();
    await session.realize([]);
    const skipped: (() => void)[] = [];
    for (const chunk of chunksOf(this.#names.keys(), this.#options.chunkBytes)) {
      const updates = (parameter: Tensor): boolean => chunk.has(parameter);
      skipped.push(
        this.optimizer.buildStep({ ...options, updates, continues: skipped.length > 0 }),
      );
      try {
        await session.realize([]);
      } catch (error) {
        // If an earlier chunk has been updated, the step cannot be repeated.
        throw skipped.length > 1 ? session.refuse(error) : error;
      }
      for (const parameter of chunk) await this.#pageOut(parameter);
    }
    return endStep(options, () => skipped.forEach((rollBackStepCounts) => rollBackStepCounts()));
  }

  /** Names tensors of the optimizer that the model does not have. They may have been added since the last step. */
  #nameOthers(): void {
    for (const parameter of this.paramGroups.flatMap(({ params }) => params)) {
      if (this.#names.has(parameter)) continue;
      const name = `parameter ${this.#names.size}`;
      this.#names.set(parameter, name);
      this.#pageGradient(parameter, name);
    }
  }

  #pageGradient(parameter: Tensor, name: string): void {
    const { gradients } = this.#options;
    if (gradients !== undefined) parameter.pageGradient(`${name} gradient`, gradients);
  }

  async #pageOut(parameter: Tensor): Promise<void> {
    const { states, parameters } = this.#options;
    const name = this.#names.get(parameter) ?? '';
    const kept = this.optimizer.stateOf(parameter)?.tensors ?? [];
    for (const [kind, tensor] of kept) await tensor.pageOut(`${name} ${kind}`, states);
    if (parameters !== undefined) await parameter.pageOut(name, parameters);
  }
}

function chunksOf(parameters: Iterable<Tensor>, limitBytes = DEFAULT_CHUNK_BYTES): Set<Tensor>[] {
  const chunks: Set<Tensor>[] = [];
  let bytes = limitBytes;
  for (const parameter of parameters) {
    const { shape, dtype } = parameter.part;
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
