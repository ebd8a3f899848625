import { ConfigError } from '../spec/errors.ts';
import type { Tensor } from '../tensor/tensor.ts';

/** Settings that every optimizer has, and that may change from step to step. */
export interface OptimizerSettings {
  /** Learning rate. */
  lr: number;
}

/** Parameters that share settings. */
export type ParamGroup<Settings extends OptimizerSettings> = Settings & {
  readonly params: readonly Tensor[];
};

/** What a user gives: parameters, and the settings that differ from the optimizer's. */
export type ParamGroupInput<Settings extends OptimizerSettings> = Partial<Settings> & {
  readonly params: Iterable<Tensor>;
};

/** Parameters, all with the same settings, or groups. */
export type OptimizerInput<Settings extends OptimizerSettings> =
  | Iterable<Tensor>
  | Iterable<ParamGroupInput<Settings>>;

/**
 * Throws ConfigError where nothing is to be trained, or a parameter stands twice, TensorStateError for
 * parameters that their model does not have any more.
 */
export function makeParamGroups<Settings extends OptimizerSettings>(
  input: OptimizerInput<Settings>,
  defaults: Settings,
): ParamGroup<Settings>[] {
  const loose: Tensor[] = [];
  const groups: ParamGroup<Settings>[] = [];
  for (const item of input) {
    if ('params' in item) groups.push({ ...defaults, ...item, params: [...item.params] });
    else loose.push(item);
  }
  if (loose.length > 0) groups.push({ ...defaults, params: loose });
  checkParams(groups);
  return groups;
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

/** Throws ConfigError for a setting outside [low, high); `high` itself is allowed where it is infinite. */
export function checkSetting(
  name: string,
  value: number,
  low: number,
  high: number = Number.POSITIVE_INFINITY,
): void {
  if (value >= low && value < high) return;
  throw new ConfigError(
    {
      asked: `an optimizer with ${name} ${value}`,
      found: 'a number out of range',
      todo: `Use a number in [${low}, ${high})`,
    },
    { name, value },
  );
}
