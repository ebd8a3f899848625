import type { Tensor } from '../../tensor/tensor.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRule } from '../../base/option-rules.ts';

/** How the losses of a batch's items are combined. 'none' returns each of them. */
export type Reduction = 'mean' | 'sum' | 'none';

export const reductionRule: OptionRule<Reduction> = option.oneOf('mean', 'sum', 'none');

/** Combines losses. Shape: losses N -> [], or N for 'none'. */
export function reduceLosses(losses: Tensor, reduction: Reduction = 'mean'): Tensor {
  if (reduction === 'none') return losses;
  return reduction === 'sum' ? losses.sum() : losses.mean();
}
