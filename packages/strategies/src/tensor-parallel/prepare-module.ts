import { changePlacement } from './change-placement.ts';
import type { ParallelStyle } from './parallel-style.ts';
import type { Placement } from './placement.ts';
import { requireTensor, wrapMethod } from './wrap-method.ts';

export interface PlacementChange {
  /** What it is. */
  readonly from: Placement;
  /** What it is to be. */
  readonly to: Placement;
}

/**
 * Changes how the inputs of a module lie, before its forward pass: one change for each, undefined for
 * those that stay (PyTorch's PrepareModuleInput). A plan does not know the sizes of these, and lists
 * no communication.
 */
export function prepareModuleInput(
  ...changes: readonly (PlacementChange | undefined)[]
): ParallelStyle {
  return {
    name: 'prepareModuleInput',
    partitions: () => new Map(),
    collectives: () => [],
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
export function prepareModuleOutput({ from, to }: PlacementChange): ParallelStyle {
  return {
    name: 'prepareModuleOutput',
    partitions: () => new Map(),
    collectives: () => [],
    install(module, { axis }, path) {
      wrapMethod(module, 'forward', (inputs, forward) =>
        changePlacement(requireTensor(forward(inputs), path), axis, from, to),
      );
    },
  };
}
