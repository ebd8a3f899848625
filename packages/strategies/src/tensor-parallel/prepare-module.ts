import { activationRule, checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import type { ActivationChange, ParallelStyle } from './parallel-style.ts';

const changeRules: OptionRules<ActivationChange> = {
  from: option.required(activationRule),
  to: option.required(activationRule),
  features: option.count,
};

/**
 * Changes the layouts of the inputs of a module before its forward pass (PyTorch's PrepareModuleInput). Pass
 * one change for each input, or undefined for inputs that do not change. For modules with parameters, a plan
 * lists the messages of the changes that say the sizes.
 */
export function prepareModuleInput(
  ...changes: readonly (ActivationChange | undefined)[]
): ParallelStyle {
  for (const change of changes) {
    if (change !== undefined) checkOptions('prepareModuleInput', change, changeRules);
  }
  return {
    name: 'prepareModuleInput',
    kind: {},
    parameters: {},
    inputs: { forward: changes },
    output: null,
  };
}

/** Changes the layout of the output of a module (PyTorch's PrepareModuleOutput). */
export function prepareModuleOutput(change: ActivationChange): ParallelStyle {
  checkOptions('prepareModuleOutput', change, changeRules);
  return {
    name: 'prepareModuleOutput',
    kind: {},
    parameters: {},
    inputs: { forward: [] },
    output: change,
  };
}
