import {
  checkOptions,
  encodeSafetensors,
  type HostArray,
  type Module,
  type Named,
  option,
  type OptionRules,
  readStateDict,
  requireModule,
} from '@shardwise/core/extend';
import { PretrainedModel } from '../model/pretrained-model.ts';
import { QuantizedLinear } from '../quantized/quantized-linear.ts';
import { LoraConv1D } from './lora-conv1d.ts';
import { type LoraLayer, loraLayers } from './lora-layer.ts';
import type { LoraSettings } from './lora-options.ts';
import { isNamed } from './target-layers.ts';

/** The contents of the two files of an adapter in PEFT's format. */
export interface AdapterFiles {
  /** What adapter_config.json contains. */
  readonly config: unknown;
  /** The bytes of adapter_model.safetensors. */
  readonly tensors: Uint8Array;
}

/** Options of `adapterFiles`. */
export interface AdapterFilesOptions {
  /** The folder or name of the model that the adapter is for. Default: null, and the user must know. */
  readonly baseModelNameOrPath?: string;
  /** PEFT's name of what the model is for, such as 'CAUSAL_LM' or 'SEQ_CLS'. Default: that of the model's class. */
  readonly taskType?: string;
}

const filesRules: OptionRules<AdapterFilesOptions> = {
  baseModelNameOrPath: option.nonEmptyText,
  taskType: option.nonEmptyText,
};

/** What stands before the names of tensors in PEFT's files. */
export const filePrefix = 'base_model.model.';

/**
 * Returns the adapter of a model, under every strategy, as files that PEFT reads: the matrices of the adapters, and the
 * other parameters that train, whose modules are the config's `modules_to_save`. If ranks share parameters out, this is
 * a collective. Throws ConfigError for a model without adapters.
 */
export async function adapterFiles(
  model: Module,
  options: AdapterFilesOptions = {},
): Promise<AdapterFiles> {
  requireModule('adapterFiles', model);
  checkOptions('adapterFiles', options, filesRules);
  const layers = loraLayers('adapterFiles', model);
  const paths = layers.map(([path]) => path);
  const entries = model.namedState().filter(([name, tensor]) => {
    const isOfAdapter = paths.some((path) => name.startsWith(`${path}.lora_`));
    return isOfAdapter || tensor.requiresGrad;
  });
  const saved = entries.flatMap(([name]) =>
    paths.some((path) => name.startsWith(`${path}.`)) ? [] : name.slice(0, name.lastIndexOf('.')),
  );
  const state = await readStateDict(entries);
  const tensors = Object.fromEntries(
    Object.entries(state).map(([name, array]): [string, HostArray] => [filePrefix + name, array]),
  );
  return {
    config: configOf(model, layers, [...new Set(saved)], options),
    tensors: encodeSafetensors(tensors, { format: 'pt' }),
  };
}

interface NamedSettings {
  readonly path: string;
  readonly settings: LoraSettings;
}

function configOf(
  model: Module,
  layers: readonly Named<LoraLayer>[],
  modulesToSave: readonly string[],
  options: AdapterFilesOptions,
): Record<string, unknown> {
  const all = layers.map(([path, { settings }]): NamedSettings => ({ path, settings }));
  const [first] = all;
  if (first === undefined) throw new RangeError('an adapter without layers');
  const { rank, alpha, dropout, useRslora, useDora } = first.settings;
  return {
    alpha_pattern: othersThan(all, 'alpha', alpha),
    auto_mapping: null,
    base_model_name_or_path: options.baseModelNameOrPath ?? null,
    bias: 'none',
    fan_in_fan_out: layers.some(
      ([, layer]) =>
        layer instanceof LoraConv1D ||
        (layer instanceof QuantizedLinear && layer.isTransposedInFiles),
    ),
    inference_mode: true,
    init_lora_weights: true,
    lora_alpha: alpha,
    lora_dropout: dropout,
    modules_to_save: modulesToSave.length === 0 ? null : modulesToSave,
    peft_type: 'LORA',
    r: rank,
    rank_pattern: othersThan(all, 'rank', rank),
    target_modules: targetNames(
      model,
      all.map(({ path }) => path),
    ),
    task_type: options.taskType ?? taskOf(model),
    use_dora: useDora,
    use_rslora: useRslora,
  };
}

/** The settings of layers in which they are not the common one, by their paths. */
function othersThan(
  layers: readonly NamedSettings[],
  key: 'rank' | 'alpha',
  common: number,
): Record<string, number> {
  const others = layers.filter(({ settings }) => settings[key] !== common);
  return Object.fromEntries(others.map(({ path, settings }) => [path, settings[key]]));
}

/** The last names of layers, if no other layer has them. Otherwise, their paths. */
function targetNames(model: Module, paths: readonly string[]): readonly string[] {
  const names = [...new Set(paths.map((path) => path.slice(path.lastIndexOf('.') + 1)))];
  const own = new Set(paths);
  const isOnlyOwn = model
    .namedModules()
    .every(([path]) => own.has(path) || !names.some((name) => isNamed(path, name)));
  return isOnlyOwn ? names : paths;
}

/** PEFT's name of what a class of transformers is for, or null. */
function taskOf(model: Module): string | null {
  if (!(model instanceof PretrainedModel)) return null;
  const { architecture } = model;
  if (/ForCausalLM$|LMHeadModel$/.test(architecture)) return 'CAUSAL_LM';
  if (architecture.endsWith('ForSequenceClassification')) return 'SEQ_CLS';
  return architecture.endsWith('ForTokenClassification') ? 'TOKEN_CLS' : null;
}
