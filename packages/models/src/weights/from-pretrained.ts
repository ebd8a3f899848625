import {
  CheckpointError,
  checkOptions,
  ConfigError,
  constructAs,
  constructParts,
  describeValue,
  type DType,
  dtypes,
  elementCount,
  Generator,
  type ModelFolder,
  type Module,
  option,
  type OptionRules,
  replicated,
  type Strategy,
  type Tensor,
  type TensorSource,
  tensorsToKeep,
} from '@shardwise/core/extend';
import { constructSharded, parallelize, type PlannedModel } from '@shardwise/strategies';
import { z } from 'zod';
import { architectures } from '../architectures.ts';
import { addLoraBeforeWeights } from '../lora/add-lora.ts';
import { type LoraOptions, loraRules } from '../lora/lora-options.ts';
import { measureRows } from '../lora/measure-rows.ts';
import {
  quantizeBeforeWeights,
  type QuantizeOptions,
  quantizeRules,
} from '../lora/quantize-model.ts';
import { type Architecture, type BuildOptions, modelFromConfig } from '../model/architecture.ts';
import type { ForwardCall } from '../model/forward-call.ts';
import type { PretrainedModel } from '../model/pretrained-model.ts';
import { isKeptInBlocks } from '../quantized/kept-in-blocks.ts';
import { keepBlocks, withoutBlocks } from './blocked-model.ts';
import { isGguf } from './find-weights.ts';
import { ggufConfig } from './gguf/gguf-config.ts';
import { type GgufSource, ggufSource } from './gguf/gguf-source.ts';
import {
  loadPretrained,
  type LoadPretrainedOptions,
  loadPretrainedRules,
  openWeightsOf,
} from './load-pretrained.ts';
import { onMesh } from './on-mesh.ts';
import { quantizingSource } from './quantizing-source.ts';
import { renameFor } from './rename-tensors.ts';

const CONFIG_NAME = 'config.json';

/** Options of `fromPretrained`. */
export interface FromPretrainedOptions
  extends LoadPretrainedOptions, Pick<BuildOptions, 'generator' | 'ignoredKeys'> {
  /** The classes among which the config chooses. Default: those of this package. */
  readonly architectures?: readonly Architecture[];
  /**
   * Whether linear layers, embeddings and heads keep the weights that a GGUF file has in blocks of few bits, as they are and
   * frozen. Embeddings decode the rows that they look up. Where products run in machine code of x86-64, some rows of a weight
   * are decoded at a time, in a cache. Elsewhere, in losses and in backward passes, each pass makes the weight of a layer anew,
   * as those of `quantizeModel`. The bits are the same. Default: false, and all numbers become `dtype`.
   */
  readonly quantized?: boolean;
  /**
   * The dtype in which parameters are made and read, at once: the model is never there in f32 before. `'auto'`: the one
   * that most floats of the file have, or f32 if it is f64. Parameters of bf16 and f16 are frozen, because optimizers
   * update f32: they are for generation, and below adapters (`addLora`). A number that would become infinite, as those beyond 65504 in
   * f16, is an error.
   * Buffers, such as the statistics of batch norms, stay f32, and so do the angles of rotary positions. With `quantized`,
   * it is the dtype of all that is not in blocks. Default: f32.
   */
  readonly dtype?: 'f32' | 'bf16' | 'f16' | 'auto';
  /**
   * Adds adapters as `addLora` does, before weights are read: with a strategy, each rank has only its part of the frozen
   * weights at any time. Adapters are in f32, beside weights of every `dtype` and with `quantized`. Default: none.
   */
  readonly lora?: LoraOptions;
  /**
   * Keeps linear layers in 4 or 8 bits, frozen, as `quantizeModel` does, but as their weights are read: no rank ever has a
   * weight of such a layer in the dtype of the file, only some of its blocks at a time, and with a strategy each rank reads
   * and quantizes its part. With `lora` it is QLoRA, and `dtype` is that of all other weights. Default: nothing.
   */
  readonly quantize?: QuantizeOptions;
  /** Changes of the config, with the keys of config.json, such as `{ attention_dropout: 0.1 }`. Default: none. */
  readonly config?: Readonly<Record<string, unknown>>;
}

/** Options of `fromPretrained` with a strategy. */
export interface ParallelPretrainedOptions extends FromPretrainedOptions {
  /** The strategy that the model is to be trained with. No rank ever has more of the model than its part. */
  readonly strategy: Strategy;
}

/** A model of a folder to which a strategy is applied. */
export type ParallelPretrained = PlannedModel<
  PretrainedModel,
  readonly [inputs: Tensor, call?: ForwardCall],
  Tensor
>;

const rules: OptionRules<FromPretrainedOptions> = {
  ...loadPretrainedRules,
  generator: option.instanceOf(Generator),
  ignoredKeys: option.listOf(option.nonEmptyText),
  architectures: option.listOf(option.object<Architecture>('an architecture()')),
  quantized: option.flag,
  dtype: option.oneOf('f32', 'bf16', 'f16', 'auto'),
  lora: option.object("options of addLora, such as { targetModules: 'all-linear' }"),
  quantize: option.object('options of quantizeModel, such as { bits: 4 }'),
  config: option.object('keys of config.json'),
};

const parallelRules: OptionRules<ParallelPretrainedOptions> = {
  ...rules,
  strategy: option.required(option.object('a strategy, such as fsdp()')),
};

/**
 * Builds the model that the config.json of a folder, or its GGUF file (`file`), describes, and loads its weights. Initial values are drawn only if
 * the folder lacks a tensor that may be missing, such as a new head. With a strategy, it also applies the strategy:
 * it is a collective then, and each rank allocates and reads only its part. Throws ConfigError for a config that no
 * class can compute, and the errors of loadPretrained.
 */
export async function fromPretrained(
  folder: ModelFolder,
  options: ParallelPretrainedOptions,
): Promise<ParallelPretrained>;
export async function fromPretrained(
  folder: ModelFolder,
  options?: FromPretrainedOptions,
): Promise<PretrainedModel>;
export async function fromPretrained(
  folder: ModelFolder,
  options: FromPretrainedOptions | ParallelPretrainedOptions = {},
): Promise<PretrainedModel | ParallelPretrained> {
  requireFolder(folder);
  if (isParallel(options)) checkOptions('fromPretrained', options, parallelRules);
  else checkOptions('fromPretrained', options, rules);
  const {
    architectures: known = architectures,
    config,
    dtype: asked = 'f32',
    generator,
    ignoredKeys,
    lora,
    quantize,
    quantized = false,
    strategy,
    ...load
  } = { strategy: undefined, ...options };
  if (lora !== undefined) checkOptions('fromPretrained with lora', lora, loraRules);
  if (quantize !== undefined) {
    checkOptions('fromPretrained with quantize', quantize, quantizeRules);
    if (quantized) throw twiceQuantized(folder.place);
  }
  const json = { ...(await readConfig(folder, load.file)), ...config };
  const blocks = quantized ? await openBlocks(folder, load.file) : null;
  const drawsFrom = generator === undefined ? {} : { generator };
  const make = (initialValues: 'random' | 'zeros'): PretrainedModel => {
    const model = modelFromConfig(json, known, {
      initialValues,
      ...drawsFrom,
      ...(ignoredKeys === undefined ? {} : { ignoredKeys }),
    });
    if (quantize !== undefined) return quantizeBeforeWeights(model, quantize);
    return blocks === null ? model : keepBlocks(model, blocks);
  };
  const { source, isComplete } = await compare(folder, () => make('zeros'), load);
  const dtype = asked === 'auto' ? dtypeOf(source) : asked;
  const restart = restartOf([generator, lora?.generator]);
  const build = (): PretrainedModel => {
    restart();
    const model = isComplete
      ? constructAs(dtype, { keeps: 'nothing' }, () => make('zeros'))
      : constructAs(dtype, { keeps: 'values' }, () => make('random'));
    // Optimizers update f32, so strategies refuse others that train.
    if (dtype !== 'f32') model.requiresGrad_(false);
    return lora === undefined ? model : addLoraBeforeWeights(model, { ...drawsFrom, ...lora });
  };
  if (strategy === undefined) {
    const model = build();
    await loadPretrained(model, folder, load);
    await measureRows(model);
    return model;
  }
  await requireOneVersion(folder);
  const model = constructSharded(build, strategy);
  const parallel = await parallelize<
    PretrainedModel,
    readonly [inputs: Tensor, call?: ForwardCall],
    Tensor
  >(model, strategy);
  await loadPretrained(model, folder, load);
  await measureRows(model);
  return parallel;
}

/** Throws ConfigError for what is no folder, such as a path, which only the function for Node takes. */
function requireFolder(folder: unknown): void {
  if (typeof folder === 'object' && folder !== null && 'readText' in folder) return;
  throw new ConfigError({
    asked: `fromPretrained with the folder ${describeValue(folder)}`,
    found: 'no ModelFolder',
    todo: 'Import fromPretrained from @shardwise/models/node, which takes paths, or give pickedFolder(files) or httpFolder(url)',
  });
}

/** Returns what sets generators back to their present states, because constructSharded builds a model twice. */
function restartOf(generators: readonly (Generator | undefined)[]): () => void {
  const states = generators.map((generator) => generator?.getState());
  return () => {
    for (const [index, generator] of generators.entries()) generator?.setState(states[index]);
  };
}

/** Opens a file whose blocks a model is to keep. Throws ConfigError for a file of another format. */
async function openBlocks(folder: ModelFolder, file: string | undefined): Promise<GgufSource> {
  if (file !== undefined && isGguf(file)) return ggufSource(folder, file);
  throw withoutBlocks(folder.place);
}

function isParallel(
  options: FromPretrainedOptions | ParallelPretrainedOptions,
): options is ParallelPretrainedOptions {
  return 'strategy' in options;
}

/** Opens the weights of a folder, and sees whether they have every tensor of a model. It builds one without values. */
async function compare(
  folder: ModelFolder,
  build: () => PretrainedModel,
  { file, rename = (name) => name }: LoadPretrainedOptions,
): Promise<{ readonly source: TensorSource; readonly isComplete: boolean }> {
  const sample = constructParts(
    (_, { shape }) => ({ bytes: new Uint8Array(), layout: replicated(shape), drawn: 0 }),
    build,
  );
  const stored = await openWeightsOf(sample, folder, file);
  const inModel = renameFor(stored, sample, rename);
  const { source, scaleNames } = quantizingSource(stored, sample, inModel);
  const kept = tensorsToKeep(source, sample, { rounds: true, rename: inModel }).filter(
    (name) => !scaleNames.includes(name),
  );
  requireBlocks(sample, kept, folder.place);
  return { source: stored, isComplete: kept.length === 0 };
}

/** Throws CheckpointError if a folder lacks the weight of a layer that is to be in blocks, which nothing else gives values. */
function requireBlocks(model: Module, kept: readonly string[], place: string): void {
  const layers = new Map(model.namedModules());
  const name = kept.find((each) => {
    const layer = each.endsWith('.weight') ? layers.get(each.slice(0, -'.weight'.length)) : null;
    return layer != null && isKeptInBlocks(layer);
  });
  if (name === undefined) return;
  throw new CheckpointError(
    {
      asked: `'${name}' of ${place} in blocks of few bits`,
      found: 'no weight of this name and shape',
      todo: 'Load a folder that has it, leave the layer out of targetModules of quantize, or leave quantized out',
    },
    { place, name },
  );
}

function twiceQuantized(place: string): ConfigError {
  return new ConfigError(
    {
      asked: `the weights of ${place} with quantize and quantized: true`,
      found: 'two ways to keep them in few bits',
      todo: 'Give quantized: true for the blocks of a GGUF file, or quantize for blocks of the weights of any file',
    },
    { place },
  );
}

/** The dtype of most floats of a source. f32 for f64, and for a source without floats. */
function dtypeOf(source: TensorSource): 'f32' | 'bf16' | 'f16' {
  const counts = new Map<DType, number>();
  for (const name of source.names) {
    const tensor = source.get(name);
    if (tensor === undefined || dtypes[tensor.dtype].kind !== 'float') continue;
    counts.set(tensor.dtype, (counts.get(tensor.dtype) ?? 0) + elementCount(tensor.shape));
  }
  const [most] = [...counts].toSorted(([, a], [, b]) => b - a);
  const dtype = most?.[0];
  return dtype === 'bf16' || dtype === 'f16' ? dtype : 'f32';
}

/** Throws CheckpointError on all ranks if some of them found another version of a folder, such as a later commit. */
async function requireOneVersion(folder: ModelFolder): Promise<void> {
  if (folder.version === undefined) return;
  const { place } = folder;
  const shared = { asked: `to load the model of ${place}`, todo: 'Load it again' };
  const versions = await onMesh(shared, z.string(), async () => (await folder.version?.()) ?? '');
  if (new Set(versions).size <= 1) return;
  const found = `other versions on other ranks: ${[...new Set(versions)].join(', ')}`;
  throw new CheckpointError({ ...shared, found }, { place, versions });
}

async function readConfig(
  folder: ModelFolder,
  file: string | undefined,
): Promise<Record<string, unknown>> {
  if (file !== undefined && isGguf(file)) return ggufConfig(folder, file);
  const refuse = (found: string, cause?: unknown): CheckpointError =>
    new CheckpointError(
      {
        asked: `to load the model of ${folder.place}`,
        found,
        todo: `Give the folder of a model of Hugging Face, which has a ${CONFIG_NAME}, or the name of a model of the hub with its organization: organization/model`,
      },
      { place: folder.place },
      cause === undefined ? {} : { cause },
    );
  const text = await folder.readText(CONFIG_NAME);
  if (text === undefined) throw refuse(`no ${CONFIG_NAME} in it`);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw refuse(`a ${CONFIG_NAME} that is no JSON`, cause);
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw refuse(`a ${CONFIG_NAME} that is no object`);
  }
  return { ...json };
}
