import { checkByRules, unfit, withDefaults } from '../base/check-options.ts';
import { CheckpointError, ConfigError, describeValue } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRule } from '../base/option-rules.ts';
import { formatShape } from '../base/shape.ts';
import { Tensor } from '../tensor/tensor.ts';

/** Settings that every optimizer has, and that may change from step to step. */
export interface OptimizerSettings {
  /** The learning rate. */
  lr: number;
}

/** Parameters that share settings. */
export type ParamGroup<Settings extends OptimizerSettings> = Settings & {
  readonly params: readonly Tensor[];
};

/** Parameters, and their settings where these differ from the optimizer's. */
export type ParamGroupInput<Settings extends OptimizerSettings> = Partial<Settings> & {
  readonly params: Iterable<Tensor>;
};

/** Parameters that all have the same settings, or groups of parameters. */
export type OptimizerInput<Settings extends OptimizerSettings> =
  | Iterable<Tensor>
  | Iterable<ParamGroupInput<Settings>>;

/**
 * Completes `settings` by `defaults`. Throws ConfigError for settings that `defaults` does not have, and for values of
 * another kind.
 */
export function checkedSettings<Settings extends OptimizerSettings>(
  of: string,
  settings: Partial<Settings>,
  defaults: Settings,
): Settings {
  checkByRules(of, settings, rulesLike(defaults));
  return withDefaults(defaults, settings);
}

/**
 * Makes the groups of an optimizer, which `of` names. Throws ConfigError for settings that `defaults` does not have,
 * for values that are not parameters, for an empty list, and for a parameter that occurs twice. Throws TensorStateError
 * for parameters that their model no longer has.
 */
export function makeParamGroups<Settings extends OptimizerSettings>(
  of: string,
  input: OptimizerInput<Settings>,
  defaults: Settings,
): ParamGroup<Settings>[] {
  const rules = { ...rulesLike(defaults), params: option.object() };
  const loose: Tensor[] = [];
  const groups: ParamGroup<Settings>[] = [];
  for (const item of iterable(of, input)) {
    if (isGroup(item)) {
      checkByRules(`${of}, parameter group ${groups.length},`, item, rules);
      const params = [...iterable(of, item.params)];
      groups.push({ ...withDefaults(defaults, item), params });
    } else loose.push(item);
  }
  if (loose.length > 0) groups.push({ ...defaults, params: loose });
  for (const { params } of groups) for (const parameter of params) requireLeaf(of, parameter);
  checkParams(groups);
  // An assignment to a misspelt setting must throw. Otherwise it would silently add a field.
  return groups.map((group) => Object.preventExtensions(group));
}

/**
 * Returns a group with its saved settings. Throws CheckpointError for settings that the group does not have, or has
 * with another kind of value, because they come from another optimizer. A switch that the group does not have and that
 * was off changes nothing: it is ignored, so that a related class can continue, such as AdamW8bit from AdamW.
 */
export function withSavedSettings<Settings extends OptimizerSettings>(
  of: string,
  group: ParamGroup<Settings>,
  saved: object,
): ParamGroup<Settings> {
  const { params, ...own } = group;
  const rules = rulesLike(own);
  const settings = Object.entries(saved).filter(
    ([name, value]) => name !== 'params' && (value !== false || Object.hasOwn(own, name)),
  );
  const wrong = settings.filter(([name, value]) => rules[name]?.fits(value) !== true);
  if (wrong.length === 0) return { ...group, ...Object.fromEntries(settings) };
  const list = wrong.map(([name, value]) => `${name} ${describeValue(value)}`).join(', ');
  throw new CheckpointError(
    {
      asked: `load the settings of ${of}, which are ${Object.keys(own).join(', ')}`,
      found: list,
      todo: 'Load the state of an optimizer of the same class',
    },
    { settings: wrong.map(([name]) => name), parameters: params.length },
  );
}

/** Rules that demand values of the kinds of the defaults. */
function rulesLike(defaults: object): Record<string, OptionRule<unknown>> {
  return Object.fromEntries(
    Object.entries(defaults).map(([name, value]) => [name, ruleLike(value)] as const),
  );
}

function ruleLike(value: unknown): OptionRule<unknown> {
  if (typeof value === 'number') return option.number;
  if (typeof value === 'boolean') return option.flag;
  if (!Array.isArray(value)) return option.checkedLater();
  const { length } = value;
  return {
    fits: (list): list is unknown[] =>
      Array.isArray(list) && list.length === length && list.every(option.number.fits),
    expected: `a list of ${length} numbers`,
  };
}

function isGroup<Settings extends OptimizerSettings>(
  item: Tensor | ParamGroupInput<Settings>,
): item is ParamGroupInput<Settings> {
  return typeof item === 'object' && item !== null && 'params' in item;
}

const parametersOrGroups =
  'Pass model.parameters(), a list of tensors, or groups { params, …settings }';

function iterable<List extends Iterable<unknown>>(of: string, list: List, todo?: string): List {
  const given: unknown = list;
  if (typeof given === 'object' && given !== null && Symbol.iterator in given) return list;
  throw noParameters(of, given, todo);
}

/**
 * Throws ConfigError for a value that is not a tensor, and for a tensor that is computed from others, which has no
 * contents to update.
 */
function requireLeaf(of: string, parameter: unknown): void {
  if (!(parameter instanceof Tensor)) throw noParameters(of, parameter);
  const { op, shape } = parameter.contents;
  if (op === 'input' || op === 'assign') return;
  throw new ConfigError(
    {
      asked: `${of} of a tensor of shape ${formatShape(shape)}`,
      found: `it is computed by ${op}, and has no contents of its own to update`,
      todo: 'Pass the parameters that it is computed from',
    },
    { op, shape },
  );
}

/** Returns a list of tensors. Throws ConfigError for anything else, such as a model. */
export function tensorsOf(of: string, parameters: Iterable<Tensor>): readonly Tensor[] {
  const todo = 'Pass model.parameters(), or a list of tensors';
  const list = [...iterable(of, parameters, todo)];
  for (const each of list) if (!(each instanceof Tensor)) throw noParameters(of, each, todo);
  return list;
}

/** What this rank updates of each parameter. */
export function partsOf(parameters: readonly Tensor[]): readonly Tensor[] {
  return parameters.map(({ part }) => part);
}

function noParameters(of: string, given: unknown, todo = parametersOrGroups): ConfigError {
  const found = `${describeValue(given)} where parameters are expected`;
  return new ConfigError({ asked: of, found, todo });
}

export function checkParams(groups: readonly { readonly params: readonly Tensor[] }[]): void {
  const all = groups.flatMap(({ params }) => params);
  for (const parameter of all) parameter.checkNotReplaced();
  const different = new Set(all).size;
  if (all.length > 0 && different === all.length) return;
  throw new ConfigError(
    {
      asked: 'an optimizer',
      found:
        all.length === 0
          ? 'no parameters'
          : `${all.length - different} parameters that stand twice`,
      todo:
        all.length === 0
          ? 'Pass model.parameters() of a model that has some'
          : 'Put each parameter into one group, once',
    },
    { groups: groups.map(({ params }) => params.length) },
  );
}

/**
 * Throws ConfigError for a setting that is not a number, or outside [low, high). If `high` is infinite,
 * infinity is allowed.
 */
export function checkSetting(
  name: string,
  value: number,
  low: number,
  high: number = Number.POSITIVE_INFINITY,
): void {
  const range: OptionRule<number> = {
    // A string would be compared as the number that it looks like, and could make NaN in computations.
    fits: (given): given is number => option.number.fits(given) && given >= low && given < high,
    expected: `a number in [${low}, ${high})`,
  };
  if (!range.fits(value)) throw unfit('an optimizer', name, value, option.required(range));
}
