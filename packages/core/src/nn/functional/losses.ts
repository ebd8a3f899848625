import { formatShape, sameShape } from '../../shape.ts';
import { ShapeError } from '../../spec/errors.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { reduceLosses, type Reduction, reductionRule } from './reduction.ts';
import { checkOptions } from '../../spec/check-options.ts';
import type { OptionRules } from '../../spec/option-rules.ts';
import { composed } from '../../realize/small-values.ts';

export interface LossOptions {
  /** Default mean. */
  readonly reduction?: Reduction;
}

const lossRules: OptionRules<LossOptions> = { reduction: reductionRule };

/** (input - target)². Shape: input N, target N -> [], or N for reduction 'none'. */
export function mseLoss(input: Tensor, target: Tensor, options: LossOptions = {}): Tensor {
  checkOptions('mseLoss', options, lossRules);
  checkShapes('mseLoss', input, target);
  return composed(() => reduceLosses(input.sub(target).square(), options.reduction ?? 'mean'));
}

/** |input - target|. Shape: input N, target N -> [], or N for reduction 'none'. */
export function l1Loss(input: Tensor, target: Tensor, options: LossOptions = {}): Tensor {
  checkOptions('l1Loss', options, lossRules);
  checkShapes('l1Loss', input, target);
  return composed(() => reduceLosses(input.sub(target).abs(), options.reduction ?? 'mean'));
}

/**
 * Cross-entropy of sigmoid(logits) and targets in [0, 1], exact for large logits: (1 - t) x +
 * log(1 + exp(-x)). Shape: logits N, targets N -> [], or N for reduction 'none'.
 */
export function binaryCrossEntropyWithLogits(
  logits: Tensor,
  targets: Tensor,
  options: LossOptions = {},
): Tensor {
  checkOptions('binaryCrossEntropyWithLogits', options, lossRules);
  checkShapes('binaryCrossEntropyWithLogits', logits, targets);
  return composed(() => {
    const missing = targets.neg().add(1);
    const losses = missing.mul(logits).add(logits.neg().softplus());
    return reduceLosses(losses, options.reduction ?? 'mean');
  });
}

/** A loss that broadcasts hides a mistake in most programs. */
function checkShapes(operation: string, input: Tensor, target: Tensor): void {
  if (sameShape(input.shape, target.shape)) return;
  throw new ShapeError(
    {
      asked: `${operation} of shapes ${formatShape(input.shape)} and ${formatShape(target.shape)}`,
      found: 'shapes that differ',
      todo: 'Give input and target one shape (reshape or expand)',
    },
    { input: input.shape, target: target.shape },
  );
}
