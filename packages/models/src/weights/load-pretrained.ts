import {
  checkOptions,
  loadTensors,
  type LoadReport,
  loadTensorsRules,
  type LoadTensorsOptions,
  type ModelFolder,
  Module,
  option,
  type OptionRules,
  type Tensor,
  type TensorSource,
} from '@shardwise/core/extend';
import { adapterParameters, isLoraLayer } from '../lora/lora-layer.ts';
import { formatsOfBlocks } from './blocked-model.ts';
import { isGguf, openWeights } from './find-weights.ts';
import { ggufSource } from './gguf/gguf-source.ts';
import { quantizingSource } from './quantizing-source.ts';
import { renameFor } from './rename-tensors.ts';
import { stackedSource } from './stacked-source.ts';

/** Options of `loadPretrained`. */
export interface LoadPretrainedOptions extends Omit<LoadTensorsOptions, 'strict'> {
  /** The file of the folder with the weights. Default: the first that is there of those of Hugging Face's folders. */
  readonly file?: string;
}

const { strict: _, ...rules } = loadTensorsRules;

/** The rules of the options of loadPretrained. */
export const loadPretrainedRules: OptionRules<LoadPretrainedOptions> = {
  ...rules,
  file: option.nonEmptyText,
};

/** A model, or what `parallelize` has made of it. */
export type LoadableModel = Module | { readonly module: Module };

/**
 * Overwrites the parameters and buffers of a model with the weights of a folder, with any strategy: each rank reads only
 * the bytes of its parts. It is a collective for models whose states are sharded. A shared tensor may be in the file
 * under one of its names. The prefix of the base model may be there or not. Adapters of `addLora` keep their values. Layers
 * of `quantizeModel` get the blocks of the file's weights. Before
 * anything changes, it throws a CheckpointError that lists all names that are missing, unexpected or of another shape, except for those that the
 * options allow. Throws CheckpointError for a damaged file, too.
 */
export async function loadPretrained(
  model: LoadableModel,
  folder: ModelFolder,
  options: LoadPretrainedOptions = {},
): Promise<LoadReport> {
  checkOptions('loadPretrained', options, loadPretrainedRules);
  const { file, rename = (name) => name, allowMissing = [], ...loadOptions } = options;
  const module = model instanceof Module ? model : model.module;
  const stored = await openWeightsOf(module, folder, file);
  const inModel = renameFor(stored, module, rename);
  const { source, scaleNames, finish } = quantizingSource(stored, module, inModel);
  const report = await loadTensors(source, module, {
    rounds: true,
    ...loadOptions,
    allowMissing: [...allowMissing, ...adapterNames(module), ...scaleNames],
    rename: inModel,
  });
  await finish();
  return { ...report, missing: report.missing.filter((name) => !scaleNames.includes(name)) };
}

/** The names of the parameters of adapters, which the folder of a model has not. */
function adapterNames(model: Module): readonly string[] {
  const own = new Set<Tensor>(
    model.namedModules().flatMap(([, each]) => (isLoraLayer(each) ? adapterParameters(each) : [])),
  );
  return model.namedParameters().flatMap(([name, parameter]) => (own.has(parameter) ? name : []));
}

/** Opens the weights of a folder in the form in which a model keeps them: stacked, and in the blocks of the file. */
export async function openWeightsOf(
  model: Module,
  folder: ModelFolder,
  file: string | undefined,
): Promise<TensorSource> {
  const formats = formatsOfBlocks(model);
  if (formats.size > 0 && file !== undefined && isGguf(file)) {
    return (await ggufSource(folder, file)).withBytes(formats);
  }
  return stackedSource(await openWeights(folder, file), model);
}
