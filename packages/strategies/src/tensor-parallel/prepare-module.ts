import {
  type ActivationLayout,
  activationRule,
  checkOptions,
  option,
  type OptionRules,
  redistributeOver,
} from '@shardwise/core/extend';
import { activationCollectives } from './activation-collectives.ts';
import type { ParallelStyle, StyleCollective } from './parallel-style.ts';
import { requireTensor, wrapMethod } from './wrap-method.ts';

/** A change of layout at the input or output of a module. */
export interface ActivationChange {
  /** The layout of the activation before the change. */
  readonly from: ActivationLayout;
  /** The layout of the activation after the change. */
  readonly to: ActivationLayout;
  /**
   * The number of elements of the whole activation for each token, for the bytes in the plan. Default: not
   * known, and the plan does not list the message.
   */
  readonly features?: number;
}

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
    shardings: () => new Map(),
    collectives: ({ path }, tokens) =>
      changes.flatMap((change) =>
        change === undefined ? [] : collectivesOf(change, path, tokens),
      ),
    install(module, { axis }, path) {
      wrapMethod(module, 'forward', (inputs, forward) =>
        forward(
          inputs.map((input, index) => {
            const change = changes[index];
            return change === undefined
              ? input
              : redistributeOver(requireTensor(input, path), axis, change.from, change.to);
          }),
        ),
      );
    },
  };
}

/** Changes the layout of the output of a module (PyTorch's PrepareModuleOutput). */
export function prepareModuleOutput(change: ActivationChange): ParallelStyle {
  checkOptions('prepareModuleOutput', change, changeRules);
  const { from, to } = change;
  return {
    name: 'prepareModuleOutput',
    shardings: () => new Map(),
    collectives: ({ path }, tokens) => collectivesOf(change, path, tokens),
    install(module, { axis }, path) {
      wrapMethod(module, 'forward', (inputs, forward) =>
        redistributeOver(requireTensor(forward(inputs), path), axis, from, to),
      );
    },
  };
}

function collectivesOf(
  { from, to, features }: ActivationChange,
  module: string,
  tokens: number,
): StyleCollective[] {
  if (features === undefined) return [];
  return activationCollectives({ module, from, to, elements: tokens * features, dtype: 'f32' });
}
