import { join } from 'node:path';
import {
  allGather,
  allReduce,
  checkOptions,
  type Model,
  type Module,
  noGrad,
  option,
  type OptionRules,
  requireModule,
  type Tensor,
} from '@shardwise/core/extend';
import {
  CheckpointError,
  checkpoints,
  ConfigError,
  dist,
  optim,
  randomState,
  type RankContext,
  setRandomState,
  TensorStateError,
} from 'shardwise';
import { z } from 'zod';
import {
  AcceleratedModel,
  AcceleratedOptimizer,
  AcceleratedScheduler,
  type Scheduler,
} from './prepared.ts';
import {
  type ArrayTree,
  type LoaderOptions,
  type LoaderProgress,
  PreparedLoader,
} from './sharded-loader.ts';
import { type TrackedValues, type Tracker, type TrackerChoice, Trackers } from './trackers.ts';

type Precision = 'no' | 'fp16' | 'bf16';

/** Options of `Accelerator`. */
export interface AcceleratorOptions {
  /** The rank: await init(). */
  readonly context: Pick<RankContext, 'rank' | 'worldSize' | 'localRank' | 'group' | 'mesh'>;
  /** How ranks divide the model. Default: dist.ddp() in the precision of mixedPrecision. */
  readonly strategy?: ReturnType<typeof dist.ddp>;
  /** The dtype of products. fp16 also scales losses. Default: no. */
  readonly mixedPrecision?: Precision;
  /** The number of passes of an update. Default: 1. */
  readonly gradientAccumulationSteps?: number;
  /** Whether the batchSize of loaders is that of all ranks together. Default: false. */
  readonly splitBatches?: boolean;
  /** Whether ranks get equally many full batches, the last of which repeat rows. Default: true. */
  readonly evenBatches?: boolean;
  /** Whether a prepared schedule advances with the updates alone. Default: true. */
  readonly stepSchedulerWithOptimizer?: boolean;
  /** Where `log` writes. Default: nowhere. */
  readonly logWith?: TrackerChoice | readonly TrackerChoice[];
  /** The folder of trackers. Default: the current one. */
  readonly projectDir?: string;
}

const rules: OptionRules<AcceleratorOptions> = {
  context: option.required(option.object('await init()')),
  strategy: option.object('a strategy, as dist.zero({ stage: 2 })'),
  mixedPrecision: option.oneOf('no', 'fp16', 'bf16'),
  gradientAccumulationSteps: option.integer(1),
  splitBatches: option.flag,
  evenBatches: option.flag,
  stepSchedulerWithOptimizer: option.flag,
  logWith: option.checkedLater(),
  projectDir: option.text,
};

const projectRules: OptionRules<{
  projectName: string;
  config?: Readonly<Record<string, checkpoints.JsonValue>>;
}> = {
  projectName: option.required(option.nonEmptyText),
  config: option.object('settings by name'),
};

/** What `prepare` takes. */
export interface ToPrepare<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
  O extends optim.Optimizer,
  Sample extends ArrayTree,
> {
  readonly model: M & Model<Inputs, Output>;
  /**
   * The optimizer, or a function that makes it of the model's parameters. Strategies that replace parameters, such as
   * dist.zero(), need the function.
   */
  readonly optimizer: O | ((parameters: readonly Tensor[]) => O);
  /** The options of a DataLoader, of which each rank gets its share. */
  readonly dataLoader: LoaderOptions<Sample>;
  /** Makes the schedule of the optimizer. Default: none, and the step() of the prepared one does nothing. */
  readonly scheduler?: (optimizer: O) => Scheduler;
}

interface AnyObjects {
  readonly model: object;
  readonly optimizer: unknown;
  readonly dataLoader: object;
  readonly scheduler?: (...inputs: never[]) => unknown;
}

const prepareRules: OptionRules<AnyObjects> = {
  model: option.required(option.object('a module')),
  optimizer: option.required(option.checkedLater()),
  dataLoader: option.required(
    option.object('the options of a DataLoader, as { dataset, batchSize }'),
  ),
  scheduler: option.callback(),
};

/** What `prepare` returns. */
export interface Prepared<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
  Sample extends ArrayTree,
> {
  readonly model: AcceleratedModel<M, Inputs, Output>;
  readonly optimizer: AcceleratedOptimizer;
  readonly dataLoader: PreparedLoader<Sample>;
  readonly scheduler: AcceleratedScheduler;
}

const progressSchema = z.object({ loaders: z.array(z.json()), updates: z.int().nonnegative() });
const rankSchema = z.object({ random: z.unknown() });

/** What an accelerator needs of its models. */
interface PreparedModule {
  readonly module: Module;
  noSync<T>(body: () => T): T;
}

/** What an accelerator needs of its loaders. */
type PreparedPlace = Pick<PreparedLoader<ArrayTree>, 'state' | 'load'>;

/** Hugging Face's Accelerator, in camelCase: a training loop for any number of ranks. */
export class Accelerator {
  readonly #options: Required<Omit<AcceleratorOptions, 'strategy' | 'context' | 'logWith'>>;
  readonly #context: AcceleratorOptions['context'];
  readonly #strategy: ReturnType<typeof dist.ddp>;
  readonly #trackers: Trackers;
  readonly #scaler: optim.DynamicLossScaler | null;
  readonly #progress: LoaderProgress = { isLast: false, remainder: 0 };
  readonly #models: PreparedModule[] = [];
  readonly #optimizers: AcceleratedOptimizer[] = [];
  readonly #loaders: PreparedPlace[] = [];
  readonly #states: Record<string, checkpoints.Stateful> = {};
  #count = 0;
  #synchronizes = true;

  /** Throws ConfigError for options out of range. */
  constructor(options: AcceleratorOptions) {
    checkOptions('Accelerator', options, rules);
    const { context, strategy, mixedPrecision = 'no' } = options;
    this.#options = {
      mixedPrecision,
      gradientAccumulationSteps: options.gradientAccumulationSteps ?? 1,
      splitBatches: options.splitBatches ?? false,
      evenBatches: options.evenBatches ?? true,
      stepSchedulerWithOptimizer: options.stepSchedulerWithOptimizer ?? true,
      projectDir: options.projectDir ?? '.',
    };
    const { logWith = [] } = options;
    this.#trackers = new Trackers([logWith].flat(), context.rank === 0);
    if (strategy !== undefined && mixedPrecision !== 'no') {
      throw new ConfigError({
        asked: `mixedPrecision ${mixedPrecision} beside a strategy`,
        found: 'a strategy, which has its own precision',
        todo: "Give it to the strategy: mixedPrecision: { computeDtype: 'bf16' }",
      });
    }
    this.#context = context;
    this.#strategy =
      strategy ??
      dist.ddp(
        mixedPrecision === 'no'
          ? {}
          : { mixedPrecision: { computeDtype: mixedPrecision === 'fp16' ? 'f16' : 'bf16' } },
      );
    // The settings of torch.amp.GradScaler.
    this.#scaler =
      mixedPrecision === 'fp16'
        ? new optim.DynamicLossScaler({ scaleWindow: 2000, hysteresis: 1 })
        : null;
  }

  get processIndex(): number {
    return this.#context.rank;
  }

  get numProcesses(): number {
    return this.#context.worldSize;
  }

  get localProcessIndex(): number {
    return this.#context.localRank;
  }

  get isMainProcess(): boolean {
    return this.#context.rank === 0;
  }

  get isLocalMainProcess(): boolean {
    return this.#context.localRank === 0;
  }

  get gradientAccumulationSteps(): number {
    return this.#options.gradientAccumulationSteps;
  }

  /** Whether the present pass is the last one of an update. */
  get syncGradients(): boolean {
    return this.#synchronizes;
  }

  /** Whether the latest update was skipped because gradients were not finite. */
  get optimizerStepWasSkipped(): boolean {
    return this.#optimizers.some(({ stepWasSkipped }) => stepWasSkipped);
  }

  /** Prepares all of a training loop. It is a collective. Throws the errors of the methods for each. */
  async prepare<
    M extends Module,
    Inputs extends readonly unknown[],
    Output,
    O extends optim.Optimizer,
    Sample extends ArrayTree,
  >(
    objects: ToPrepare<M, Inputs, Output, O, Sample>,
  ): Promise<Prepared<M, Inputs, Output, Sample>> {
    checkOptions<AnyObjects>('prepare', objects, prepareRules);
    const model = await this.prepareModel(objects.model);
    const own = objects.optimizer;
    const made = typeof own === 'function' ? own(model.module.parameters()) : own;
    const optimizer = this.prepareOptimizer(made);
    const dataLoader = this.prepareDataLoader(objects.dataLoader);
    const scheduler = this.prepareScheduler(objects.scheduler?.(made) ?? noSchedule, optimizer);
    return { model, optimizer, dataLoader, scheduler };
  }

  /** Divides the model among the ranks. It is a collective. */
  async prepareModel<M extends Module, Inputs extends readonly unknown[], Output>(
    model: M & Model<Inputs, Output>,
  ): Promise<AcceleratedModel<M, Inputs, Output>> {
    requireModule('prepareModel', model);
    const parallel = await dist.parallelize(model, this.#strategy);
    const prepared = new AcceleratedModel(parallel, () => this.#synchronizes);
    this.#models.push(prepared);
    return prepared;
  }

  /** Throws ConfigError for parameters that no prepared model has, as when the strategy has replaced them. */
  prepareOptimizer(optimizer: optim.Optimizer): AcceleratedOptimizer {
    const known = new Set<Tensor>(this.#models.flatMap(({ module }) => module.parameters()));
    const own = optimizer.paramGroups.flatMap(({ params }) => params);
    if (own.some((parameter) => !known.has(parameter))) {
      throw new ConfigError({
        asked: 'to prepare an optimizer',
        found: 'parameters that no prepared model has, or that its strategy has replaced',
        todo: 'Pass a function: optimizer: (parameters) => new optim.AdamW(parameters, { lr })',
      });
    }
    const prepared = new AcceleratedOptimizer(optimizer, this.#scaler, () => this.#synchronizes);
    this.#optimizers.push(prepared);
    return prepared;
  }

  /** Returns a loader of this rank's batches. */
  prepareDataLoader<Sample extends ArrayTree>(
    options: LoaderOptions<Sample>,
  ): PreparedLoader<Sample> {
    const { rank, size: ranks } = this.#context.mesh.group('dp');
    const { evenBatches, splitBatches } = this.#options;
    const place = { rank, ranks, evenBatches, splitBatches };
    const loader = new PreparedLoader(options, place, this.#progress);
    this.#loaders.push(loader);
    return loader;
  }

  /** A prepared schedule advances by as many steps as there are ranks at each update, as in accelerate. */
  prepareScheduler(scheduler: Scheduler, optimizer: AcceleratedOptimizer): AcceleratedScheduler {
    this.#register('scheduler', scheduler);
    const { splitBatches, stepSchedulerWithOptimizer: withOptimizer } = this.#options;
    const times = splitBatches ? 1 : this.numProcesses;
    return new AcceleratedScheduler(scheduler, times, () =>
      withOptimizer ? this.#synchronizes && !optimizer.stepWasSkipped : true,
    );
  }

  /** Has saveState and loadState keep another object. */
  registerForCheckpointing(...objects: readonly checkpoints.Stateful[]): void {
    for (const object of objects) this.#register('custom', object);
  }

  #register(kind: string, object: checkpoints.Stateful): void {
    this.#states[`${kind} ${Object.keys(this.#states).length}`] = object;
  }

  /**
   * Runs a pass of the training loop. After every gradientAccumulationSteps-th pass, and after the last batch of a loader,
   * gradients are reduced and optimizers update; in the passes before, their step() and zeroGrad() do nothing.
   */
  async accumulate<T>(body: () => Promise<T>): Promise<T> {
    this.#count++;
    const isLast = this.#progress.isLast;
    this.#synchronizes = isLast || this.#count % this.gradientAccumulationSteps === 0;
    if (isLast) this.#count = 0;
    return body();
  }

  /** Computes the gradients of the loss divided by gradientAccumulationSteps. Shape: loss []. */
  backward(loss: Tensor): void {
    const passes = this.gradientAccumulationSteps;
    const share = passes === 1 ? loss : loss.div(passes);
    const run = (): void => (this.#scaler?.scale(share) ?? share).backward();
    // Outside of accumulate(), and in its last pass, gradients are reduced.
    const [first] = this.#models;
    if (this.#synchronizes || first === undefined) return run();
    this.#models.reduceRight<() => void>((inner, model) => () => model.noSync(inner), run)();
  }

  /** Clips gradients in the last pass of an update, and returns their norm before; undefined in the other passes. */
  clipGradNorm_(parameters: Iterable<Tensor>, maxNorm: number): Tensor | undefined {
    if (!this.#synchronizes) return undefined;
    this.#unscale();
    return optim.clipGradNorm(parameters, maxNorm);
  }

  /** Clips each element of the gradients in the last pass of an update. */
  clipGradValue_(parameters: Iterable<Tensor>, clipValue: number): void {
    if (!this.#synchronizes) return;
    this.#unscale();
    optim.clipGradValue(parameters, clipValue);
  }

  #unscale(): void {
    for (const optimizer of this.#optimizers) optimizer.unscale();
  }

  /** The rows of all ranks, in the order of the ranks. It is a collective. Shape: [rows, ..] -> [rows of all ranks, ..]. */
  gather(tensor: Tensor): Tensor {
    return noGrad(() => allGather(tensor, 'dp', 0));
  }

  /**
   * The rows of all ranks without those that the last batches repeat, so that metrics count each row once. Call it for the
   * results of each batch of a prepared loader. Shape: [rows, ..] -> [rows of the dataset in these batches, ..].
   */
  gatherForMetrics(tensor: Tensor): Tensor {
    const all = this.gather(tensor);
    const { isLast, remainder } = this.#progress;
    return isLast && remainder > 0 && this.#options.evenBatches ? all.slice(0, 0, remainder) : all;
  }

  /** The sum or the mean over the ranks. It is a collective. Shape: N -> N. */
  reduce(tensor: Tensor, reduction: 'sum' | 'mean' = 'sum'): Tensor {
    return noGrad(() =>
      reduction === 'mean' ? allReduce(tensor, 'dp', { reduce: 'avg' }) : allReduce(tensor, 'dp'),
    );
  }

  /** The model without what the ranks have in common. */
  unwrapModel<M extends Module>(model: { readonly module: M }): M {
    return model.module;
  }

  /** Prints on rank 0. */
  print(...values: readonly unknown[]): void {
    if (this.isMainProcess) console.log(...values);
  }

  /** Starts the trackers of logWith for a project, whose files are in the folder of this name in projectDir. */
  async initTrackers(
    projectName: string,
    config: Readonly<Record<string, checkpoints.JsonValue>> = {},
  ): Promise<void> {
    checkOptions('initTrackers()', { projectName, config }, projectRules);
    const directory = join(this.#options.projectDir, projectName);
    await this.#trackers.start({ name: projectName, config, directory });
  }

  /**
   * Gives figures to the trackers. Rank 0 writes. Default of `step`: the number of calls before. Throws TensorStateError before
   * initTrackers, and ConfigError for values that are no numbers.
   */
  async log(values: TrackedValues, { step }: { readonly step?: number } = {}): Promise<void> {
    await this.#trackers.log(values, step);
  }

  /** The tracker of this name, for what log() does not do. Only that of rank 0 is started. Throws ConfigError. */
  getTracker(name: string): Tracker {
    return this.#trackers.get(name);
  }

  /** Ends the trackers. */
  async endTraining(): Promise<void> {
    await this.#trackers.finish();
  }

  /** Waits for all ranks. */
  async waitForEveryone(): Promise<void> {
    await this.#context.group.barrier();
  }

  /** Runs `body` on rank 0, and then on the others, as to fill a cache once. */
  async mainProcessFirst<T>(body: () => Promise<T>): Promise<T> {
    if (!this.isMainProcess) await this.waitForEveryone();
    try {
      return await body();
    } finally {
      if (this.isMainProcess) await this.waitForEveryone();
    }
  }

  /**
   * Saves models, optimizers, schedules, loaders, the random numbers of each rank and what was registered. It is a
   * collective. Returns the folder. Throws TensorStateError in an update of several passes, whose gradients it would lose.
   */
  async saveState(directory: string): Promise<string> {
    if (!this.#synchronizes) {
      throw new TensorStateError({
        asked: 'to save a state',
        found: 'a pass that is not the last one of an update, whose gradients no checkpoint has',
        todo: 'Save when syncGradients is true',
      });
    }
    const { model, optimizer } = this.#single();
    const updates = this.#optimizers.reduce((sum, { updates }) => sum + updates, 0);
    return checkpoints.save(
      directory,
      {
        step: updates,
        model,
        ...(optimizer === undefined ? {} : { optimizer: optimizer.optimizer }),
        states: { ...this.#states, ...(this.#scaler === null ? {} : { scaler: this.#scaler }) },
        extra: { loaders: this.#loaders.map((loader) => loader.state()), updates },
        rankExtra: { random: randomState() },
      },
      { group: this.#context.group },
    );
  }

  /** Loads what saveState saved, on any number of ranks; loaders and random numbers continue on the same number only. */
  async loadState(directory: string): Promise<void> {
    const { model, optimizer } = this.#single();
    const { rank, group } = this.#context;
    const checkpoint = await checkpoints.load(directory);
    const extra = progressSchema.safeParse(checkpoint.extra);
    const own = rankSchema.safeParse(checkpoint.rankExtras[rank] ?? checkpoint.rankExtras[0]);
    if (!extra.success || !own.success || extra.data.loaders.length !== this.#loaders.length) {
      throw new CheckpointError(
        {
          asked: `to continue from ${checkpoint.directory}`,
          found: 'a checkpoint that no Accelerator saved, or one with other loaders',
          todo: 'Prepare the same objects as the run that saved it',
        },
        { directory: checkpoint.directory },
      );
    }
    await checkpoints.loadModel(checkpoint, model);
    if (optimizer !== undefined) {
      await checkpoints.loadOptimizer(checkpoint, model, optimizer.optimizer);
      optimizer.updates = extra.data.updates;
    }
    const states = { ...this.#states, ...(this.#scaler === null ? {} : { scaler: this.#scaler }) };
    await checkpoints.loadStates(checkpoint, states, { group });
    for (const [index, loader] of this.#loaders.entries()) loader.load(extra.data.loaders[index]);
    setRandomState(own.data.random);
    this.#count = 0;
    this.#synchronizes = true;
  }

  /** The model and the optimizer of a checkpoint. Throws ConfigError for several, which one checkpoint cannot have. */
  #single(): { readonly model: Module; readonly optimizer: AcceleratedOptimizer | undefined } {
    const [model] = this.#models;
    if (model !== undefined && this.#models.length === 1 && this.#optimizers.length <= 1) {
      return { model: model.module, optimizer: this.#optimizers[0] };
    }
    throw new ConfigError({
      asked: 'the state of an accelerator',
      found: `${this.#models.length} models and ${this.#optimizers.length} optimizers`,
      todo: 'Prepare one of each, or save them by checkpoints.save',
    });
  }
}

const noSchedule: Scheduler = { step: () => {}, stateDict: () => null, loadStateDict: () => {} };
