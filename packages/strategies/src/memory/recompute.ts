import { activationMemoryBudget, checkpoint, type PageStore } from '@shardwise/core/extend';
import { interceptForward } from '../modules/module-method.ts';
import type { StepKind } from '../plan/step.ts';

/** Has backward passes recompute values of forward passes, or read them from pages, so that a training pass keeps within its bytes. */
export interface Recompute {
  /** The bytes of a pass on one rank, as `nn.activationMemoryBudget` takes them. */
  readonly bytes: number;
  /** Where values may be meanwhile. Default: none leaves the device. */
  readonly pages?: PageStore | undefined;
}

/**
 * The kind of the step `Recompute`: each forward pass of the model is a checkpoint with a budget. Place it after all steps
 * that change the model, so that what they add to passes belongs to the checkpoint.
 */
export const recompute: StepKind<Recompute> = {
  name: 'recompute',
  collectives: () => [],
  apply({ bytes, pages }, { model }) {
    const options = {
      policy: activationMemoryBudget({ bytes }),
      ...(pages === undefined ? {} : { pages }),
    };
    interceptForward(model, (forward, inputs) => checkpoint(() => forward(inputs), options));
  },
  explain: ({ bytes, pages }) =>
    `backward recomputes ${pages === undefined ? '' : 'or reads from pages '}what a pass of ${bytes} bytes does not hold, value by value`,
};
