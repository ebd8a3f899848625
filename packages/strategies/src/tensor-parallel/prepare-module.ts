import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { activationCollectives } from './activation-collectives.ts';
import { changePlacement } from './change-placement.ts';
import type { ParallelStyle, StyleCollective } from './parallel-style.ts';
import { type Placement, placementRule } from './placement.ts';
import { requireTensor, wrapMethod } from './wrap-method.ts';

export interface PlacementChange {
  /** What it is. */
  readonly from: Placement;
  /** What it is to be. */
  readonly to: Placement;
  /** Elements of the whole activation for each token, for the bytes in the plan. Default: not known, and not listed. */
  readonly features?: number;
}

const changeRules: OptionRules<PlacementChange> = {
  from: option.required(placementRule),
  to: option.required(placementRule),
  features: option.count,
};

/**
 * Changes how the inputs of a module lie, before its forward pass: one change for each, undefined for
 * those that stay (PyTorch's PrepareModuleInput). Of modules with parameters a plan lists what the
 * changes communicate, where they say the sizes.
 */
export function prepareModuleInput(
  ...changes: readonly (PlacementChange | undefined)[]
): ParallelStyle {
  for (const change of changes) {
    if (change !== undefined) checkOptions('prepareModuleInput', change, changeRules);
  }
  return {
    name: 'prepareModuleInput',
    partitions: () => new Map(),
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
              : changePlacement(requireTensor(input, path), axis, change.from, change.to);
          }),
        ),
      );
    },
  };
}

/** Changes how the output of a module lies (PyTorch's PrepareModuleOutput). */
export function prepareModuleOutput(change: PlacementChange): ParallelStyle {
  checkOptions('prepareModuleOutput', change, changeRules);
  const { from, to } = change;
  return {
    name: 'prepareModuleOutput',
    partitions: () => new Map(),
    collectives: ({ path }, tokens) => collectivesOf(change, path, tokens),
    install(module, { axis }, path) {
      wrapMethod(module, 'forward', (inputs, forward) =>
        changePlacement(requireTensor(forward(inputs), path), axis, from, to),
      );
    },
  };
}

function collectivesOf(
  { from, to, features }: PlacementChange,
  module: string,
  tokens: number,
): StyleCollective[] {
  if (features === undefined) return [];
  return activationCollectives({ module, from, to, elements: tokens * features, dtype: 'f32' });
}
