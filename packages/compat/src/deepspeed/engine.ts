import { join } from 'node:path';
import {
  checkOptions,
  concat,
  describeValue,
  type Module,
  noGrad,
  option,
  type OptionRules,
  Tensor,
} from '@shardwise/core/extend';
import {
  CheckpointError,
  checkpoints,
  ConfigError,
  DataError,
  type dist,
  optim,
  type RankContext,
  TensorStateError,
} from 'shardwise';
import { z } from 'zod';
import type { Values } from '../config/key-table.ts';
import type { BatchSizes } from './batch-sizes.ts';
import type { EngineOptimizer } from './optimizers.ts';
import { roundedStates } from './rounded-states.ts';
import type { Settings } from './settings.ts';

/** The parts of a rank's context that an engine needs. */
export type EngineContext = Pick<RankContext, 'rank' | 'worldSize' | 'group' | 'mesh'>;

/** A schedule that an engine advances: one of DeepSpeed's, or of the library. */
export interface EngineScheduler extends checkpoints.Stateful {
  step(): void;
}

/** What an engine is made of. */
export interface EngineParts<M extends Module, Inputs extends readonly unknown[], Output> {
  readonly model: dist.ParallelModel<M, Inputs, Output>;
  readonly optimizer: EngineOptimizer | undefined;
  readonly scheduler: EngineScheduler | undefined;
  readonly scaler: optim.LossScaler | undefined;
  readonly settings: Settings;
  /** The configuration, with "auto" resolved. */
  readonly config: Values;
  readonly batches: BatchSizes;
  /** The number of forward passes of an update. A pass through a pipeline has all microbatches. */
  readonly passes: number;
  /** The limit of the norm of gradients. 0 means none. */
  readonly gradientClipping: number;
  /** Whether the optimizer averages over the ranks itself. */
  readonly averages: boolean;
  readonly context: EngineContext;
  /** Frees what initialize() opened. */
  readonly close: () => Promise<void>;
}

/** Options of `saveCheckpoint`. */
export interface SaveEngineOptions {
  /** A folder below the directory. Default: the directory, in which each checkpoint has a folder by its step. */
  readonly tag?: string;
  /** Other data of the script. */
  readonly clientState?: checkpoints.JsonValue;
}

/** Options of `loadCheckpoint`. */
export interface LoadEngineOptions {
  readonly tag?: string;
  /** Whether names that one side does not have are errors. Default: true. */
  readonly loadModuleStrict?: boolean;
  /** Default: true. */
  readonly loadOptimizerStates?: boolean;
  /** Default: true. */
  readonly loadLrSchedulerStates?: boolean;
  /** Whether only the parameters are loaded. Default: false. */
  readonly loadModuleOnly?: boolean;
}

const saveRules: OptionRules<SaveEngineOptions> = {
  tag: option.text,
  clientState: option.checkedLater(),
};
const loadRules: OptionRules<LoadEngineOptions> = {
  tag: option.text,
  loadModuleStrict: option.flag,
  loadOptimizerStates: option.flag,
  loadLrSchedulerStates: option.flag,
  loadModuleOnly: option.flag,
};

/** What `loadCheckpoint` found. */
export interface LoadedCheckpoint {
  readonly path: string;
  readonly clientState: checkpoints.JsonValue;
}

const progressSchema = z.object({
  deepspeed: z.object({
    microSteps: z.int().nonnegative(),
    globalSteps: z.int().nonnegative(),
    skippedSteps: z.int().nonnegative(),
    globalSamples: z.int().nonnegative(),
  }),
  clientState: z.json(),
});

/** The engine that `initialize` makes: DeepSpeed's, with its names in camelCase. */
export class DeepSpeedEngine<M extends Module, Inputs extends readonly unknown[], Output> {
  protected readonly parts: EngineParts<M, Inputs, Output>;
  #microSteps = 0;
  #globalSteps = 0;
  #skippedSteps = 0;
  #globalSamples = 0;
  #stepApplied = false;
  #backwards = 0;
  #gradNorm: Tensor | null = null;

  constructor(parts: EngineParts<M, Inputs, Output>) {
    this.parts = parts;
  }

  /** The model itself. */
  get module(): M {
    return this.parts.model.module;
  }

  /** The model as the ranks train it, for what the engine does not do. */
  get model(): dist.ParallelModel<M, Inputs, Output> {
    return this.parts.model;
  }

  get optimizer(): EngineOptimizer | undefined {
    return this.parts.optimizer;
  }

  get scheduler(): EngineScheduler | undefined {
    return this.parts.scheduler;
  }

  /** The configuration, with each "auto" resolved. */
  get config(): Values {
    return this.parts.config;
  }

  get context(): EngineContext {
    return this.parts.context;
  }

  /** The number of updates, with those that were skipped. */
  get globalSteps(): number {
    return this.#globalSteps;
  }

  /** The number of updates that were skipped because gradients were not finite. */
  get skippedSteps(): number {
    return this.#skippedSteps;
  }

  /** The number of rows that the updates have seen, of all ranks. */
  get globalSamples(): number {
    return this.#globalSamples;
  }

  get microSteps(): number {
    return this.#microSteps;
  }

  /** Throws ConfigError if the configuration does not say it. */
  get trainBatchSize(): number {
    return this.#size('train', 'train_batch_size');
  }

  /** Throws ConfigError if the configuration does not say it. */
  get trainMicroBatchSizePerGpu(): number {
    return this.#size('micro', 'train_micro_batch_size_per_gpu');
  }

  get gradientAccumulationSteps(): number {
    return this.parts.batches.accumulation;
  }

  get gradientClipping(): number {
    return this.parts.gradientClipping;
  }

  get zeroOptimizationStage(): number {
    return this.parts.settings.zero_optimization.stage;
  }

  get lossScale(): number {
    return this.parts.scaler?.lossScale ?? 1;
  }

  /** The learning rate of each group of the optimizer. */
  getLr(): readonly number[] {
    return this.#optimizer.paramGroups.map(({ lr }) => lr);
  }

  /** Whether the present forward pass, or the one after the latest step(), is the last one of an update. */
  isGradientAccumulationBoundary(): boolean {
    return (this.#microSteps + 1) % this.parts.passes === 0;
  }

  /** Whether the latest step() updated the parameters. */
  wasStepApplied(): boolean {
    return this.#stepApplied;
  }

  /** The norm of the gradients of the latest update before it was clipped, or null. Shape: []. */
  getGlobalGradNorm(): Tensor | null {
    return this.#gradNorm;
  }

  train(mode = true): void {
    this.module.train(mode);
  }

  eval(): void {
    this.module.eval();
  }

  /** The model's forward pass. */
  forward(...inputs: Inputs): Output {
    return this.#collected(() => this.parts.model.forward(...inputs));
  }

  /**
   * Computes gradients of the loss divided by the number of forward passes of an update, which it returns. Ranks reduce them
   * in the last pass of an update; in stages 2 and 3 in each, which keeps only parts of them. Shape: [] -> [].
   */
  backward(loss: Tensor): Tensor {
    if (this.#backwards > this.#microSteps) {
      throw new TensorStateError({
        asked: 'backward() of an engine',
        found: 'a backward() since the latest step()',
        todo: 'Call step() after each backward(); it updates after as many as gradient_accumulation_steps says',
      });
    }
    const { passes } = this.parts;
    const share = passes === 1 ? loss : loss.div(passes);
    const { scaler } = this.parts;
    this.#collected(() => (scaler === undefined ? share : scaler.scale(share)).backward());
    this.#backwards++;
    return share;
  }

  /**
   * Ends a forward pass. After the last one of an update it clips the gradients, updates the parameters and advances the
   * schedule. If gradients are not finite in 16 bits, it changes nothing, on all ranks alike.
   */
  async step(): Promise<void> {
    if (this.#backwards !== this.#microSteps + 1) {
      throw new TensorStateError({
        asked: 'step() of an engine',
        found: 'no backward() since the latest one',
        todo: 'Call engine.backward(loss) before it',
      });
    }
    const isLast = this.isGradientAccumulationBoundary();
    this.#stepApplied = false;
    if (isLast) await this.#update();
    this.#microSteps++;
  }

  async #update(): Promise<void> {
    const { scaler, scheduler, gradientClipping, batches, settings, context } = this.parts;
    const optimizer = this.#optimizer;
    if (gradientClipping > 0) {
      scaler?.unscale(optimizer);
      const parameters = optimizer.paramGroups.flatMap(({ params }) => params);
      this.#gradNorm = optim.clipGradNorm(parameters, gradientClipping);
    }
    this.#stepApplied = await (scaler === undefined ? optimizer.step() : scaler.step(optimizer));
    scaler?.update();
    optimizer.zeroGrad();
    this.#globalSteps++;
    this.#globalSamples += batches.train ?? 0;
    if (this.#stepApplied) scheduler?.step();
    else this.#skippedSteps++;
    const every = settings.steps_per_print;
    if (every === null || every === undefined || this.#globalSteps % every !== 0) return;
    if (context.rank !== 0) return;
    const rates = this.getLr().join(', ');
    console.log(`step=${this.#globalSteps}, skipped=${this.#skippedSteps}, lr=[${rates}]`);
  }

  /**
   * Saves parameters, optimizer states, the schedule and the counts, as checkpoints.save does. It is a collective of all
   * ranks. Returns the folder. Throws TensorStateError between the passes of an update, whose gradients it would lose.
   */
  async saveCheckpoint(directory: string, options: SaveEngineOptions = {}): Promise<string> {
    checkOptions('saveCheckpoint', options, saveRules);
    const { tag, clientState = null } = options;
    const { optimizer, context, passes } = this.parts;
    if (this.#microSteps % passes !== 0) {
      throw new TensorStateError({
        asked: 'to save a checkpoint',
        found: `${this.#microSteps % passes} of ${passes} passes of an update, whose gradients no checkpoint has`,
        todo: 'Save after the step() that updates, when wasStepApplied() is true',
      });
    }
    return checkpoints.save(
      tag === undefined ? directory : join(directory, tag),
      {
        step: this.#globalSteps,
        model: this.module,
        ...(optimizer === undefined ? {} : { optimizer }),
        states: this.#states(true),
        extra: {
          deepspeed: {
            microSteps: this.#microSteps,
            globalSteps: this.#globalSteps,
            skippedSteps: this.#skippedSteps,
            globalSamples: this.#globalSamples,
          },
          clientState,
        },
      },
      { group: context.group },
    );
  }

  /**
   * Loads what saveCheckpoint saved, on any number of ranks and with any stage. Throws CheckpointError if nothing is there,
   * where DeepSpeed warns and goes on untrained.
   */
  async loadCheckpoint(
    directory: string,
    options: LoadEngineOptions = {},
  ): Promise<LoadedCheckpoint> {
    checkOptions('loadCheckpoint', options, loadRules);
    const { tag, loadModuleStrict: strict = true, loadModuleOnly: alone = false } = options;
    const { loadOptimizerStates = true, loadLrSchedulerStates = true } = options;
    const checkpoint = await checkpoints.load(tag === undefined ? directory : join(directory, tag));
    const progress = progressSchema.safeParse(checkpoint.extra);
    if (!progress.success) {
      throw new CheckpointError(
        {
          asked: `to continue from ${checkpoint.directory}`,
          found: 'a checkpoint that no engine saved',
          todo: 'Load it by checkpoints.loadModel(checkpoint, engine.module)',
        },
        { directory: checkpoint.directory },
        { cause: progress.error },
      );
    }
    const { optimizer, context } = this.parts;
    await checkpoints.loadModel(checkpoint, this.module, { strict });
    if (!alone && loadOptimizerStates && optimizer !== undefined) {
      await checkpoints.loadOptimizer(checkpoint, this.module, optimizer);
    }
    if (!alone) {
      await checkpoints.loadStates(checkpoint, this.#states(loadLrSchedulerStates), {
        group: context.group,
        strict: loadLrSchedulerStates,
      });
    }
    const { deepspeed: counts, clientState } = progress.data;
    if (!alone) {
      // The checkpoint may have another number of passes of an update.
      this.#microSteps = counts.globalSteps * this.parts.passes;
      this.#backwards = this.#microSteps;
      this.#globalSteps = counts.globalSteps;
      this.#skippedSteps = counts.skippedSteps;
      this.#globalSamples = counts.globalSamples;
    }
    return { path: checkpoint.directory, clientState };
  }

  /**
   * Writes the whole parameters in the dtype of fp16 or bf16, as one safetensors file. It is a collective; rank 0 writes.
   * Returns the path.
   */
  async save16bitModel(directory: string, fileName = 'model.safetensors'): Promise<string> {
    const { settings, context } = this.parts;
    const dtype = settings.fp16.enabled ? 'f16' : settings.bf16.enabled ? 'bf16' : 'f32';
    const path = join(directory, fileName);
    const states = await this.module.stateDict();
    if (context.rank === 0) {
      await checkpoints.saveTensorFile(path, roundedStates(states, dtype));
    }
    return path;
  }

  /** Frees what initialize() opened, and leaves the world if it joined it. The last call. */
  async destroy(): Promise<void> {
    await this.parts.close();
  }

  /** Runs a pass. Gradients stay on the rank where others follow, or where the optimizer averages. */
  #collected<T>(body: () => T): T {
    const { model, averages } = this.parts;
    const keepsParts = this.zeroOptimizationStage >= 2;
    const follows = !this.isGradientAccumulationBoundary() && !keepsParts;
    return averages || follows ? model.noSync(body) : body();
  }

  #states(withScheduler: boolean): checkpoints.Statefuls {
    const { scheduler, scaler } = this.parts;
    return {
      ...(withScheduler && scheduler !== undefined ? { scheduler } : {}),
      ...(scaler instanceof optim.DynamicLossScaler ? { scaler } : {}),
    };
  }

  get #optimizer(): EngineOptimizer {
    const { optimizer } = this.parts;
    if (optimizer !== undefined) return optimizer;
    throw new ConfigError({
      asked: 'to update by an engine',
      found: 'no optimizer',
      todo: 'Write "optimizer" in the configuration, or pass it to initialize()',
    });
  }

  #size(name: 'train' | 'micro', key: string): number {
    const size = this.parts.batches[name];
    if (size !== undefined) return size;
    throw new ConfigError(
      { asked: key, found: 'a configuration without sizes of batches', todo: `Write ${key}` },
      { path: key },
    );
  }
}

/**
 * An engine whose model is cut into stages. A batch passes through them in as many microbatches as
 * gradient_accumulation_steps says.
 */
export class PipelineEngine<
  M extends Module,
  Inputs extends readonly unknown[],
  Targets extends readonly unknown[],
> extends DeepSpeedEngine<M, [...Inputs, ...Targets], Tensor> {
  /**
   * Takes as many microbatches as an update has, trains with them, and returns their mean loss. Each is the model's inputs
   * and then the targets, with tensors that have rows. Shape: -> [].
   */
  async trainBatch(
    batches: Iterator<[...Inputs, ...Targets]> | AsyncIterator<[...Inputs, ...Targets]>,
  ): Promise<Tensor> {
    this.train();
    const loss = this.forward(...(await this.#batch(batches)));
    this.backward(loss);
    await this.step();
    return loss;
  }

  /** The loss of as many microbatches as an update has, without gradients. Shape: -> []. */
  async evalBatch(
    batches: Iterator<[...Inputs, ...Targets]> | AsyncIterator<[...Inputs, ...Targets]>,
  ): Promise<Tensor> {
    this.eval();
    const batch = await this.#batch(batches);
    const loss = noGrad(() => this.forward(...batch));
    this.train();
    return loss;
  }

  async #batch(
    batches: Iterator<[...Inputs, ...Targets]> | AsyncIterator<[...Inputs, ...Targets]>,
  ): Promise<[...Inputs, ...Targets]> {
    const count = this.gradientAccumulationSteps;
    const rows: [...Inputs, ...Targets][] = [];
    while (rows.length < count) {
      const { done, value } = await batches.next();
      if (done === true) {
        throw new DataError(
          {
            asked: `a batch of ${count} microbatches`,
            found: `an end of the data after ${rows.length}`,
            todo: 'Begin the data again, or leave out a batch that is not complete',
          },
          { count, found: rows.length },
        );
      }
      rows.push(value);
    }
    const [first] = rows;
    if (first === undefined) throw new RangeError('no microbatches');
    return rows.length === 1 ? first : joined(rows, first);
  }
}

/** One batch of the rows of several. Shapes: each tensor [rows, ..] -> [rows of all, ..]. */
function joined<Row extends readonly unknown[]>(rows: readonly Row[], first: Row): Row;
function joined(
  rows: readonly (readonly unknown[])[],
  first: readonly unknown[],
): readonly unknown[] {
  return first.map((value, place) => {
    const values = rows.map((row) => row[place]);
    if (values.every((each) => each === undefined)) return value;
    return concat(
      values.map((each) => {
        if (each instanceof Tensor && each.ndim > 0) return each;
        throw new ConfigError({
          asked: `microbatches whose element ${place} is ${describeValue(each)}`,
          found: 'no tensor with rows',
          todo: 'Give the inputs and targets of each microbatch as tensors',
        });
      }),
      0,
    );
  });
}
