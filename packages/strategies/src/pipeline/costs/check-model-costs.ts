import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import { amount } from '../../pipeline-schedule/actions/schedule.ts';
import type { ModelCosts, ModuleCosts } from './model-costs.ts';

const costsRules: OptionRules<ModelCosts> = {
  rows: option.required(option.integer(1)),
  inputBytes: amount,
  modules: option.required(option.listOf(option.object<ModuleCosts>('the costs of a module'))),
};

const moduleRules: OptionRules<ModuleCosts> = {
  path: option.required(option.nonEmptyText),
  parameters: option.required(option.count),
  parameterTensors: option.count,
  regathered: option.checkedLater(),
  regatheredUnderCheckpoint: option.checkedLater(),
  stateBytes: option.required(amount),
  flops: option.required(amount),
  recomputedFlops: amount,
  calls: option.count,
  activationBytes: option.required(amount),
  weightGradientBytes: option.required(amount),
  outputBytes: option.required(amount),
  times: option.required(option.checkedLater()),
};

const gatheredRules: OptionRules<NonNullable<ModuleCosts['regathered']>> = {
  elements: option.required(option.count),
  tensors: option.required(option.count),
};

const timesRules: OptionRules<NonNullable<ModuleCosts['times']>> = {
  forwardMs: option.required(amount),
  inputGradientMs: option.required(amount),
  weightGradientMs: option.required(amount),
};

/** Throws ConfigError for invalid costs. They may have been written by hand. */
export function checkModelCosts(costs: ModelCosts): void {
  checkOptions('the costs of a model', costs, costsRules);
  for (const module of costs.modules) {
    checkOptions(`the costs of module '${module.path}'`, module, moduleRules);
    for (const gathered of [module.regathered, module.regatheredUnderCheckpoint]) {
      if (gathered === undefined) continue;
      checkOptions(`what module '${module.path}' gathers again`, gathered, gatheredRules);
    }
    if (module.times !== null) {
      checkOptions(`the times of module '${module.path}'`, module.times, timesRules);
    }
  }
  const paths = costs.modules.map(({ path }) => path);
  const twice = paths.find((path, index) => paths.indexOf(path) < index);
  if (twice === undefined) return;
  throw new ConfigError(
    {
      asked: 'the costs of a model',
      found: `module '${twice}' twice`,
      todo: 'Give each module once, in the order in which the model calls them',
    },
    { module: twice },
  );
}
