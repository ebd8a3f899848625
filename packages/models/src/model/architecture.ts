import { checkOptions, ConfigError, type OptionRules } from '@shardwise/core/extend';
import {
  type ConfigReadOptions,
  configFromJson,
  type PretrainedConfig,
  readRules,
} from './config-format.ts';
import {
  type ModelClass,
  type PretrainedModel,
  pretrainedRules,
  type PretrainedOptions,
} from './pretrained-model.ts';

/** A class of models as `modelFromConfig` chooses it. */
export interface Architecture<Model extends PretrainedModel = PretrainedModel> {
  /** The name of the class in `architectures` of config.json. */
  readonly name: string;
  /** The `model_type` of config.json. */
  readonly modelType: string;
  /** Makes a model of the contents of a config.json. Throws ConfigError. */
  build(json: unknown, options?: BuildOptions): Model;
}

/** Options of `modelFromConfig`. */
export interface BuildOptions extends PretrainedOptions, ConfigReadOptions {}

const buildRules: OptionRules<BuildOptions> = { ...pretrainedRules, ...readRules };

/** Describes a class, for a list of architectures. */
export function architecture<Config extends PretrainedConfig, Model extends PretrainedModel>(
  model: ModelClass<Config, Model>,
): Architecture<Model> {
  const { format, architecture: name } = model;
  return {
    name,
    modelType: format.modelType,
    build(json, { ignoredKeys = [], ...options } = {}) {
      return new model(configFromJson(name, format, json, { ignoredKeys }), options);
    },
  };
}

/**
 * Makes the model that a config.json describes. The class is the one that its `architectures` name among those of its
 * `model_type`, and the first of them if none is named. Throws ConfigError for a model that is not in the list.
 */
export function modelFromConfig<Model extends PretrainedModel>(
  json: unknown,
  architectures: readonly Architecture<Model>[],
  options: BuildOptions = {},
): Model {
  checkOptions('modelFromConfig', options, buildRules);
  const { model_type: modelType, architectures: names } = fieldsOf(json);
  const fitting = architectures.filter((each) => each.modelType === modelType);
  const named = new Set<unknown>(Array.isArray(names) ? names : []);
  const found = fitting.find(({ name }) => named.has(name));
  if (found !== undefined) return found.build(json, options);
  const [first] = fitting;
  if (first !== undefined && named.size === 0) return first.build(json, options);
  const known = [...new Set(architectures.map((each) => each.name))].join(', ');
  throw new ConfigError(
    {
      asked: `a model of model_type ${JSON.stringify(modelType) ?? 'that is missing'} and architectures ${JSON.stringify(names) ?? '[]'}`,
      found: `the classes ${known}`,
      todo: 'Use one of these, or add your own class to the list: [...architectures, architecture(MyModel)]',
    },
    { modelType, architectures: names },
  );
}

function fieldsOf(json: unknown): {
  readonly model_type?: unknown;
  readonly architectures?: unknown;
} {
  return typeof json === 'object' && json !== null ? json : {};
}
