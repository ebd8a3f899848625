import { activationMemoryBudget, checkpoint } from '@shardwise/core/extend';
import { interceptForward } from '../modules/module-method.ts';
import type { StepKind } from '../plan/step.ts';

/** Has backward passes recompute values of forward passes, so that a training pass keeps within its bytes. */
export interface Recompute {
  /** The bytes of a pass on one rank, as `nn.activationMemoryBudget` takes them. */
  readonly bytes: number;
}

/**
 * The kind of the step `Recompute`: each forward pass of the model is a checkpoint with a budget. Place it after all steps
 * that change the model, so that what they add to passes belongs to the checkpoint.
 */
export const recompute: StepKind<Recompute> = {
  name: 'recompute',
  collectives: () => [],
  apply({ bytes }, { model }) {
    const policy = activationMemoryBudget({ bytes });
    interceptForward(model, (forward, inputs) => checkpoint(() => forward(inputs), { policy }));
  },
  explain: ({ bytes }) =>
    `backward recomputes what a pass of ${bytes} bytes does not hold, value by value`,
};
