import {
  checkOptions,
  type Model,
  type Module,
  option,
  type OptionRules,
  requireModule,
  type Tensor,
} from '@shardwise/core/extend';
import { ConfigError, data, dist, init, type RankContext } from 'shardwise';
import { isValues, type Values } from '../config/key-table.ts';
import { readConfigFile } from '../config/read-file.ts';
import { type BatchSizes, batchSizes } from './batch-sizes.ts';
import { commsLoggerOf } from './comms.ts';
import { elasticBatchOn } from './elasticity.ts';
import {
  DeepSpeedEngine,
  type EngineContext,
  type EngineParts,
  type EngineScheduler,
} from './engine.ts';
import {
  type EngineOptimizer,
  namedOptimizer,
  type NamedOptimizer,
  type OptimizerOf,
} from './optimizers.ts';
import { monitorsOf } from './monitor.ts';
import { PipelineEngine } from './pipeline-engine.ts';
import type { TrainingArguments } from './resolve-auto.ts';
import { DeepSpeedScheduler } from './schedulers.ts';
import { type ReadSettings, readSettings, type Settings } from './settings.ts';
import {
  lossScalerOf,
  mixedPrecisionOf,
  offloaded,
  openOffloading,
  strategyOf,
} from './strategy.ts';

/** Named arrays, and lists of them, as samples and batches are. */
type ArrayTree = Parameters<typeof data.collate>[0][number];

/** Options of `initialize`. */
export interface InitializeOptions<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
  Sample extends ArrayTree = ArrayTree,
> {
  readonly model: M & Model<Inputs, Output>;
  /** The configuration: the path of a file of JSON, or its contents. */
  readonly config: string | object;
  /**
   * Makes the optimizer of the model's parameters. It is a function, because ZeRO replaces the parameters that the model
   * has now. Default: the one that the configuration names, if it names one.
   */
  readonly optimizer?: OptimizerOf;
  /** Makes the schedule of the optimizer. Default: the one that the configuration names. */
  readonly lrScheduler?: (optimizer: EngineOptimizer) => EngineScheduler;
  /** A dataset, of which dataLoader gives each rank its share. */
  readonly trainingData?: data.Dataset<Sample>;
  /** Makes a batch of samples. Default: stacks them. */
  readonly collate?: (samples: readonly Sample[]) => Sample;
  /** What "auto" stands for, as transformers' Trainer fills it in. */
  readonly trainingArguments?: TrainingArguments;
  /** The rank, if the script has called init() itself. Default: await init(). */
  readonly context?: EngineContext;
}

/** Options of `initialize` for a pipeline. */
export interface InitializePipelineOptions<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
  Targets extends readonly unknown[],
  Sample extends ArrayTree = ArrayTree,
> extends InitializeOptions<M, Inputs, Output, Sample> {
  /** The loss of the model's output and the targets of a microbatch. Shape: -> []. */
  readonly lossFunction: (output: Output, ...targets: Targets) => Tensor;
}

type AnyOptions = InitializeOptions<Module, readonly unknown[], unknown> & {
  readonly lossFunction?: (output: unknown, ...targets: readonly unknown[]) => Tensor;
};

const initializeRules: OptionRules<AnyOptions> = {
  model: option.required(option.object('a module')),
  config: option.required(option.checkedLater()),
  // An optimizer that is made already is told why it must be a function.
  optimizer: option.checkedLater(),
  lrScheduler: option.callback(),
  trainingData: option.object('a dataset'),
  collate: option.callback(),
  trainingArguments: option.object(),
  context: option.object('await init()'),
  lossFunction: option.callback(),
};

/** What `initialize` returns. */
export interface Initialized<Engine, Sample extends ArrayTree = ArrayTree> {
  readonly engine: Engine;
  readonly optimizer: EngineOptimizer | undefined;
  /** The batches of this rank, of trainingData. */
  readonly dataLoader: data.DataLoader<Sample> | undefined;
  readonly scheduler: EngineScheduler | undefined;
}

/**
 * deepspeed.initialize: reads a configuration of DeepSpeed, divides the model among the ranks as it says, and makes the
 * optimizer, the schedule and the loader. With `lossFunction` the model is cut into the stages of a pipeline. It is a
 * collective of all ranks. Throws ConfigError, which names the key, for a configuration that asks for what is not there.
 */
export async function initialize<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
  Targets extends readonly unknown[],
  Sample extends ArrayTree = ArrayTree,
>(
  options: InitializePipelineOptions<M, Inputs, Output, Targets, Sample>,
): Promise<Initialized<PipelineEngine<M, Inputs, Targets>, Sample>>;
export async function initialize<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
  Sample extends ArrayTree = ArrayTree,
>(
  options: InitializeOptions<M, Inputs, Output, Sample>,
): Promise<Initialized<DeepSpeedEngine<M, Inputs, Output>, Sample>>;
export async function initialize(
  options: AnyOptions,
): Promise<Initialized<DeepSpeedEngine<Module, readonly unknown[], unknown>>> {
  checkOptions('initialize', options, initializeRules);
  requireModule('initialize', options.model);
  const { model, config, lossFunction, trainingArguments = {}, trainingData } = options;
  const isFile = typeof config === 'string';
  const from = isFile ? config : 'the configuration';
  const read = readSettings(
    from,
    isFile ? await readConfigFile(config) : plain(config),
    trainingArguments,
  );
  const { settings } = read;
  if (settings.pipeline !== undefined && lossFunction === undefined) throw noLoss();
  const rank = await joined(options.context, settings, lossFunction !== undefined);
  const { context } = rank;
  const stages = lossFunction === undefined ? 1 : stagesOf(settings, context);
  const ranks = context.worldSize / stages;
  const batches = sizesOf(settings, ranks);
  if (batches.micro === undefined) requireNoSizes(settings, trainingData);

  const named = namedOf(options, settings);
  const offloading = await openOffloading(settings);
  const overRanks = strategyOf(settings, ranks, offloading);
  /** What an engine has beside its model, whose parameters are divided by now. */
  const partsOf = (): Omit<EngineParts<Module, readonly unknown[], unknown>, 'model'> => {
    const made = named?.make(model.parameters());
    const optimizer = made === undefined ? undefined : offloaded(model, made, offloading);
    return {
      optimizer,
      scheduler: optimizer === undefined ? undefined : schedulerOf(options, settings, optimizer),
      scaler: lossScalerOf(settings),
      settings,
      config: read.values,
      batches,
      passes: lossFunction === undefined ? batches.accumulation : 1,
      gradientClipping: clippingOf(settings, named),
      averages: named?.averages ?? false,
      monitors: monitorsOf(settings, context.rank),
      commsLogger: commsLoggerOf(settings, context),
      context,
      close: async () => {
        for (const pages of offloading.files) await pages[Symbol.asyncDispose]();
        await rank.close();
      },
    };
  };
  let engine: DeepSpeedEngine<Module, readonly unknown[], unknown>;
  if (lossFunction === undefined) {
    const parallel = await dist.parallelize(model, overRanks);
    engine = new DeepSpeedEngine({ model: parallel, ...partsOf() });
  } else {
    const microbatches = batches.accumulation;
    const inStages = dist.pipeline({
      loss: lossFunction,
      microbatches,
      ...pipelinePrecision(settings),
    });
    const parallel = await dist.parallelize(model, dist.compose(inStages, overRanks));
    engine = new PipelineEngine<Module, readonly unknown[], readonly unknown[]>({
      model: parallel,
      ...partsOf(),
    });
  }
  const { optimizer, scheduler } = engine;
  show(context, read, named);
  const dataLoader =
    trainingData === undefined
      ? undefined
      : loaderOf(trainingData, options, settings, batches, context);
  return { engine, optimizer, dataLoader, scheduler };
}

function plain(config: unknown): Values {
  if (isValues(config)) return config;
  throw new ConfigError({
    asked: 'initialize() with a config',
    found: `${JSON.stringify(config)}, which is neither a path nor an object`,
    todo: "Give the path of a file, as 'ds_config.json', or its contents",
  });
}

interface JoinedRank {
  readonly context: EngineContext;
  readonly close: () => Promise<void>;
}

async function joined(
  given: EngineContext | undefined,
  { pipeline }: Settings,
  isPipeline: boolean,
): Promise<JoinedRank> {
  if (given !== undefined) return { context: given, close: async () => {} };
  const own: RankContext = await init(
    isPipeline
      ? {
          mesh: (size) => {
            const stages = pipeline?.stages ?? 'auto';
            const count = stages === 'auto' ? size : stages;
            return [
              { name: 'pp', size: count },
              { name: 'dp', size: size / count },
            ];
          },
        }
      : {},
  );
  return { context: own, close: () => own.close() };
}

/** The number of ranks of the axis `pp`. Throws ConfigError if the configuration says another one. */
function stagesOf({ pipeline }: Settings, { mesh }: EngineContext): number {
  const names = mesh.axes.map(({ name }) => name);
  const size = mesh.axes.find(({ name }) => name === 'pp')?.size;
  const asked = `a pipeline of ${pipeline?.stages ?? 'auto'} stages`;
  const todo =
    "Call init({ mesh: (size) => [{ name: 'pp', size: … }, { name: 'dp', size: … }] }), or leave context out";
  if (size === undefined || !names.includes('dp')) {
    const found = `a mesh with the axes ${names.join(', ')}`;
    throw new ConfigError({ asked, found, todo }, { path: 'pipeline.stages', axes: names });
  }
  const { stages = 'auto' } = pipeline ?? {};
  if (stages === 'auto' || stages === size) return size;
  const found = `${size} ranks on the axis 'pp'`;
  throw new ConfigError({ asked, found, todo }, { path: 'pipeline.stages', stages, size });
}

function sizesOf(settings: Settings, ranks: number): BatchSizes {
  const { elasticity } = settings;
  if (elasticity?.enabled !== true) return batchSizes(settings, ranks);
  const given = (
    ['train_batch_size', 'train_micro_batch_size_per_gpu', 'gradient_accumulation_steps'] as const
  ).filter((key) => settings[key] !== undefined);
  if (given.length > 0 && !elasticity.ignore_non_elastic_batch_info) {
    throw new ConfigError(
      {
        asked: `${given.join(' and ')} beside elasticity`,
        found: 'sizes of batches, which elasticity chooses',
        todo: 'Remove them, or write elasticity.ignore_non_elastic_batch_info: true',
      },
      { path: given[0], other: 'elasticity' },
    );
  }
  const { train, micro } = elasticBatchOn(elasticity, ranks);
  return batchSizes({ train_batch_size: train, train_micro_batch_size_per_gpu: micro }, ranks);
}

function namedOf(
  { optimizer }: { readonly optimizer?: OptimizerOf },
  settings: Settings,
): NamedOptimizer | undefined {
  if (optimizer !== undefined) {
    if (typeof optimizer === 'function') return { make: optimizer, averages: false };
    throw new ConfigError({
      asked: 'initialize() with an optimizer',
      found: 'one that is made already, of parameters that ZeRO replaces',
      todo: 'Pass a function: optimizer: (parameters) => new optim.AdamW(parameters, { lr })',
    });
  }
  if (settings.optimizer === undefined) return undefined;
  const { type, params } = settings.optimizer;
  const named = namedOptimizer(type, params ?? {});
  const { stage } = settings.zero_optimization;
  if (!named.averages) return named;
  if (stage > 0) {
    throw new ConfigError(
      {
        asked: `optimizer.type ${type} beside zero_optimization.stage ${stage}`,
        found: 'an optimizer that sends momenta of whole parameters',
        todo: 'Write stage 0, or another optimizer',
      },
      { path: 'optimizer.type', other: 'zero_optimization.stage' },
    );
  }
  if ((settings.gradient_clipping ?? 0) > 0) {
    throw new ConfigError(
      {
        asked: `gradient_clipping beside optimizer.type ${type}`,
        found: 'gradients of this rank alone, whose norm is not that of the batch',
        todo: 'Remove gradient_clipping',
      },
      { path: 'gradient_clipping', other: 'optimizer.type' },
    );
  }
  return named;
}

/** DeepSpeed's limit is 1 unless the configuration says another one. */
function clippingOf(settings: Settings, named: NamedOptimizer | undefined): number {
  if (named?.averages === true) return 0;
  return settings.gradient_clipping ?? 1;
}

function pipelinePrecision(settings: Settings): Pick<dist.PipelineOptions, 'mixedPrecision'> {
  const { computeDtype } = mixedPrecisionOf(settings) ?? {};
  return computeDtype === undefined ? {} : { mixedPrecision: { computeDtype } };
}

function schedulerOf(
  { lrScheduler }: { readonly lrScheduler?: (optimizer: EngineOptimizer) => EngineScheduler },
  { scheduler }: Settings,
  optimizer: EngineOptimizer,
): EngineScheduler | undefined {
  if (lrScheduler !== undefined) return lrScheduler(optimizer);
  if (scheduler === undefined) return undefined;
  return new DeepSpeedScheduler(optimizer, scheduler.type, scheduler.params ?? {});
}

function loaderOf(
  dataset: data.Dataset,
  { collate }: { readonly collate?: (samples: readonly ArrayTree[]) => ArrayTree },
  settings: Settings,
  { micro = 1 }: BatchSizes,
  { mesh }: EngineContext,
): data.DataLoader<ArrayTree> {
  const group = mesh.group('dp');
  const sampler = new data.DistributedSampler({
    dataset,
    numReplicas: group.size,
    rank: group.rank,
  });
  return new data.DataLoader<ArrayTree>({
    dataset,
    sampler,
    batchSize: micro,
    dropLast: settings.dataloader_drop_last,
    ...(collate === undefined ? {} : { collate }),
  });
}

/** Prints on rank 0 what the configuration does not say itself. */
function show(
  { rank }: EngineContext,
  { auto, harmless }: ReadSettings,
  named?: NamedOptimizer,
): void {
  if (rank !== 0) return;
  if (auto.length > 0) console.log(`"auto": ${auto.join('; ')}`);
  if (harmless.length > 0) console.log(`without effect here: ${harmless.join(', ')}`);
  if (named?.note !== undefined) console.log(named.note);
}

function noLoss(): ConfigError {
  return new ConfigError(
    {
      asked: 'a section pipeline',
      found: 'no lossFunction, which the last stage computes',
      todo: 'Pass lossFunction: (output, targets) => loss to initialize()',
    },
    { path: 'pipeline' },
  );
}

/** Throws ConfigError for what needs the sizes of batches. */
function requireNoSizes({ tensorboard, csv_monitor: csv }: Settings, data?: object): void {
  const section = tensorboard.enabled ? 'tensorboard' : csv.enabled ? 'csv_monitor' : undefined;
  if (data === undefined && section === undefined) return;
  throw new ConfigError(
    {
      asked: data === undefined ? `${section}, which counts samples` : 'a loader of trainingData',
      found: 'neither train_batch_size nor train_micro_batch_size_per_gpu',
      todo: 'Write one of them',
    },
    { path: 'train_micro_batch_size_per_gpu' },
  );
}
