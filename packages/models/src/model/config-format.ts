import {
  checkOptions,
  ConfigError,
  describeValue,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import type { z } from 'zod';
import { neutralKeys } from './neutral-keys.ts';
import { stateName } from './state-module.ts';

/** What every config has. */
export interface PretrainedConfig {
  /** The keys of config.json that do not change what the model computes, with their names and values in the file. */
  readonly rest?: Readonly<Record<string, unknown>>;
}

/** How the config of an architecture is read and checked. */
export interface ConfigFormat<Config> {
  /** The `model_type` of config.json. */
  readonly modelType: string;
  /**
   * The keys in camelCase, with Hugging Face's defaults. The schema must be strict, so that an unknown key is an error,
   * and must accept only values that the class can compute with.
   */
  readonly schema: z.ZodType<Config> & { readonly shape: Readonly<Record<string, unknown>> };
  /** Keys of config.json that do not change what this architecture computes, besides those of all. */
  readonly neutralKeys?: readonly string[];
}

/** Options of `configFromJson`. */
export interface ConfigReadOptions {
  /** Keys of config.json that the class does not know and that may be ignored. Default: none. */
  readonly ignoredKeys?: readonly string[];
}

export const readRules: OptionRules<ConfigReadOptions> = {
  ignoredKeys: option.listOf(option.text),
};

/** Objects whose keys are labels of the user, and no names of settings. */
const labelTables: ReadonlySet<string> = new Set(['id2label', 'label2id']);

/**
 * Checks a config of camelCase keys, and fills in Hugging Face's defaults. `model` is the name of the class. Throws
 * ConfigError for values that the class cannot compute with, and for unknown keys.
 */
export function completeConfig<Config>(
  model: string,
  { schema }: ConfigFormat<Config>,
  config: unknown,
): Config {
  const parsed = schema.safeParse(config);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys.map(String) : [];
  const path = unknown.length > 0 ? unknown : [(issue?.path ?? []).map(String).join('.')];
  const keys = path.map((key) => stateName(key));
  const value = valueAt(config, unknown.length > 0 ? unknown.slice(0, 1) : (issue?.path ?? []));
  throw new ConfigError(
    {
      asked: `${model} with ${keys.map((key) => `'${key}'`).join(', ')} ${describeSetting(value)}`,
      found:
        unknown.length > 0
          ? 'a key that this class does not know'
          : `a value that this class cannot compute with: ${issue?.message ?? 'it does not fit'}`,
      todo:
        unknown.length > 0
          ? 'Leave it out. If it does not change what the model computes, name it in ignoredKeys when the file is read'
          : 'Use another checkpoint, or correct the value',
    },
    { keys, value },
  );
}

/**
 * Reads the contents of a config.json, whose keys are in snake_case. Keys that change nothing are kept in `rest`, also
 * unknown ones that are null, false or empty. Throws ConfigError that names the key for all others that the class does
 * not know, and for another `model_type`.
 */
export function configFromJson<Config>(
  model: string,
  format: ConfigFormat<Config>,
  json: unknown,
  options: ConfigReadOptions = {},
): Config {
  checkOptions('a config.json', options, readRules);
  const object = requireObject(json);
  const { model_type: modelType } = object;
  if (modelType !== format.modelType) throw wrongType(model, format.modelType, modelType);
  const ignored = new Set([...(format.neutralKeys ?? []), ...(options.ignoredKeys ?? [])]);
  const isNeutral = (key: string, value: unknown): boolean =>
    key.startsWith('_') || neutralKeys.has(key) || ignored.has(key) || asksNothing(value);
  const known: Record<string, unknown> = {};
  const rest: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(object)) {
    const member = memberName(key);
    if (Object.hasOwn(format.schema.shape, member)) {
      known[member] = labelTables.has(key) ? value : withKeys(value, memberName);
    } else if (isNeutral(key, value)) rest[key] = value;
    else known[member] = value;
  }
  return completeConfig(model, format, { ...known, rest });
}

/** Returns the contents of a config.json: the keys of the config in snake_case, and those of `rest`. */
export function configToJson(
  config: PretrainedConfig,
  { modelType, architecture }: { readonly modelType: string; readonly architecture: string },
): Record<string, unknown> {
  const { rest, ...own } = config;
  const written = Object.entries(own).map(([key, value]): [string, unknown] => {
    const name = stateName(key);
    return [name, labelTables.has(name) ? value : withKeys(value, stateName)];
  });
  return {
    ...rest,
    ...Object.fromEntries(written),
    architectures: [architecture],
    model_type: modelType,
  };
}

/** The camelCase name of a key of config.json. */
function memberName(key: string): string {
  return key.replaceAll(/(?<=[^_])_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** Renames the keys of plain objects, also of those inside others. */
function withKeys(value: unknown, rename: (key: string) => string): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((each: unknown) => withKeys(each, rename));
  return Object.fromEntries(
    Object.entries(value).map(([key, each]): [string, unknown] => [
      rename(key),
      withKeys(each, rename),
    ]),
  );
}

function asksNothing(value: unknown): boolean {
  if (value === null || value === false) return true;
  return typeof value === 'object' && Object.keys(value ?? {}).length === 0;
}

function valueAt(config: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) =>
      typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined,
    config,
  );
}

function describeSetting(value: unknown): string {
  const text = JSON.stringify(value);
  return text !== undefined && text.length <= 60 ? `= ${text}` : `= ${describeValue(value)}`;
}

function requireObject(json: unknown): Readonly<Record<string, unknown>> {
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) {
    return Object.fromEntries(Object.entries(json));
  }
  throw new ConfigError({
    asked: 'the contents of a config.json',
    found: describeValue(json),
    todo: 'Give the object that JSON.parse returns',
  });
}

function wrongType(model: string, expected: string, found: unknown): ConfigError {
  return new ConfigError(
    {
      asked: `${model} from a config.json`,
      found: `model_type ${JSON.stringify(found) ?? 'missing'}, and not "${expected}"`,
      todo: 'Use the class of this architecture, or modelFromConfig(), which chooses it',
    },
    { expected, found },
  );
}
