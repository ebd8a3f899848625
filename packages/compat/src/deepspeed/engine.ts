import { join } from 'node:path';
import {
  checkOptions,
  type Module,
  option,
  type OptionRules,
  type Tensor,
} from '@shardwise/core/extend';
import {
  CheckpointError,
  checkpoints,
  ConfigError,
  type dist,
  optim,
  type profiler,
  type RankContext,
  TensorStateError,
} from 'shardwise';
import { z } from 'zod';
import type { Values } from '../config/key-table.ts';
import { isDeepSpeedFolder } from '../zero/zero-folder.ts';
import { readZeroCheckpoint } from '../zero/zero-checkpoint.ts';
import type { BatchSizes } from './batch-sizes.ts';
import { loadZero } from './load-zero.ts';
import { Measurement, type PartTimes, timesLine } from './measurement.ts';
import { figuresOf, type Monitor } from './monitor.ts';
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
  /** Where figures of updates are written, on rank 0. */
  readonly monitors: readonly Monitor[];
  /** Logs the calls of groups, if the section comms_logger is enabled. */
  readonly commsLogger: profiler.CommsLogger | undefined;
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

/** What of a checkpoint is loaded. */
interface LoadedParts {
  readonly strict: boolean;
  readonly states: boolean;
  readonly schedule: boolean;
  /** Whether only the parameters are loaded. */
  readonly alone: boolean;
}

/** How far the training of a checkpoint has come. */
interface Progress {
  readonly globalSteps: number;
  readonly skippedSteps: number;
  readonly globalSamples: number;
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
  /** The losses of the passes of an update that monitors are told about. */
  #losses: Tensor[] = [];
  #measurement: Measurement | undefined;
  /** A pass whose gradients step() computes, because an update is measured. */
  #postponed: { readonly loss: Tensor; readonly differentiate: () => void } | undefined;

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

  /** The logger of the section comms_logger, whose logSummary() is deepspeed.comm.log_summary(). Undefined without one. */
  get commsLogger(): profiler.CommsLogger | undefined {
    return this.parts.commsLogger;
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
    const { model, settings, passes } = this.parts;
    const trains = this.module.training && this.#backwards === this.#microSteps;
    if (trains && this.#microSteps % passes === 0) {
      this.#measurement = Measurement.of(this.module, settings, this.#globalSteps);
    }
    if (trains && this.isGradientAccumulationBoundary()) this.#measurement?.beginProfile();
    return this.#collected(() => model.forward(...inputs));
  }

  /**
   * Computes gradients of the loss divided by the number of forward passes of an update, which it returns. Ranks reduce them
   * in the last pass of an update; in stages 2 and 3 in each, which keeps only parts of them. Of an update that
   * wall_clock_breakdown or flops_profiler measure, step() computes the gradients. Shape: [] -> [].
   */
  backward(loss: Tensor): Tensor {
    if (this.#backwards > this.#microSteps) {
      throw new TensorStateError({
        asked: 'backward() of an engine',
        found: 'a backward() since the latest step()',
        todo: 'Call step() after each backward(); it updates after as many as gradient_accumulation_steps says',
      });
    }
    const { passes, scaler, monitors } = this.parts;
    const share = passes === 1 ? loss : loss.div(passes);
    const differentiate = (): void =>
      this.#collected(() => (scaler === undefined ? share : scaler.scale(share)).backward());
    if (this.#measurement === undefined) differentiate();
    else this.#postponed = { loss, differentiate };
    if (monitors.length > 0) this.#losses.push(loss.retain());
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
    if (this.#postponed !== undefined) {
      const { loss, differentiate } = this.#postponed;
      this.#postponed = undefined;
      await this.#measurement?.pass(loss, isLast, differentiate);
    }
    if (isLast) await this.#measuredUpdate();
    this.#microSteps++;
  }

  async #measuredUpdate(): Promise<void> {
    const { settings, context, monitors } = this.parts;
    const prints = context.rank === 0;
    const update = (): Promise<void> => this.#update();
    const times = await this.#measurement?.update(update, prints);
    if (times === undefined) await update();
    this.#measurement = undefined;
    const every = settings.steps_per_print;
    if (prints && every !== null && every !== undefined && this.#globalSteps % every === 0) {
      const rates = this.getLr().join(', ');
      console.log(`step=${this.#globalSteps}, skipped=${this.#skippedSteps}, lr=[${rates}]`);
    }
    const shown = settings.wall_clock_breakdown ? times : undefined;
    if (prints && shown !== undefined) console.log(timesLine(shown));
    if (monitors.length > 0) await this.#tell(monitors, shown);
  }

  async #tell(monitors: readonly Monitor[], times: PartTimes | undefined): Promise<void> {
    const losses = this.#losses.splice(0);
    const scale = this.parts.settings.fp16.enabled ? this.lossScale : undefined;
    const figures = await figuresOf(losses, this.getLr(), scale, times);
    for (const monitor of monitors) await monitor(this.#globalSamples, figures);
  }

  async #update(): Promise<void> {
    const { scaler, scheduler, gradientClipping, batches } = this.parts;
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
   * Loads what saveCheckpoint saved, or what DeepSpeed saved in stages 1 to 3, on any number of ranks and with any stage.
   * Throws CheckpointError if nothing is there, where DeepSpeed warns and goes on untrained.
   */
  async loadCheckpoint(
    directory: string,
    options: LoadEngineOptions = {},
  ): Promise<LoadedCheckpoint> {
    checkOptions('loadCheckpoint', options, loadRules);
    const { tag, loadModuleStrict: strict = true, loadModuleOnly: alone = false } = options;
    const parts: LoadedParts = {
      strict,
      states: !alone && (options.loadOptimizerStates ?? true),
      schedule: !alone && (options.loadLrSchedulerStates ?? true),
      alone,
    };
    if (!(await isDeepSpeedFolder(directory, tag))) {
      return this.#loadOwn(tag === undefined ? directory : join(directory, tag), parts);
    }
    const checkpoint = await readZeroCheckpoint(directory, tag);
    const { optimizer, scheduler, scaler } = this.parts;
    await loadZero(checkpoint, {
      module: this.module,
      strict,
      optimizer: parts.states ? optimizer : undefined,
      scheduler: parts.schedule ? scheduler : undefined,
      scaler: alone ? undefined : scaler,
    });
    if (!alone) this.#continueFrom(checkpoint);
    return { path: checkpoint.directory, clientState: checkpoint.clientState };
  }

  async #loadOwn(directory: string, parts: LoadedParts): Promise<LoadedCheckpoint> {
    const checkpoint = await checkpoints.load(directory);
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
    await checkpoints.loadModel(checkpoint, this.module, { strict: parts.strict });
    if (parts.states && optimizer !== undefined) {
      await checkpoints.loadOptimizer(checkpoint, this.module, optimizer);
    }
    if (!parts.alone) {
      await checkpoints.loadStates(checkpoint, this.#states(parts.schedule), {
        group: context.group,
        strict: parts.schedule,
      });
      this.#continueFrom(progress.data.deepspeed);
    }
    return { path: checkpoint.directory, clientState: progress.data.clientState };
  }

  #continueFrom({ globalSteps, skippedSteps, globalSamples }: Progress): void {
    // The checkpoint may have another number of passes of an update.
    this.#microSteps = globalSteps * this.parts.passes;
    this.#backwards = this.#microSteps;
    this.#globalSteps = globalSteps;
    this.#skippedSteps = skippedSteps;
    this.#globalSamples = globalSamples;
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
    this.parts.commsLogger?.stop();
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
