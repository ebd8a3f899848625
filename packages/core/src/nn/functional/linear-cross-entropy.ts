import { requireIndexDType } from '../../graph/infer-indices.ts';
import { composed } from '../../realize/pending/small-values.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { elementCount, sizeAt } from '../../base/shape.ts';
import { requireTensors } from '../../tensor/check-arguments.ts';
import { indicesInRange } from '../../tensor/indices-in-range.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { linearLogSumExp, type LinearLogSumExpOptions, tileRules } from './linear-log-sum-exp.ts';
import { type Reduction, reductionRule } from './reduction.ts';

/** Options of `linearCrossEntropy`. */
export interface LinearCrossEntropyOptions extends LinearLogSumExpOptions {
  /** How losses are combined. Default: the mean over the targets that are not ignored. */
  readonly reduction?: Reduction;
  /** Targets of this value do not count. Default: -100. */
  readonly ignoreIndex?: number;
}

const lossRules: OptionRules<LinearCrossEntropyOptions> = {
  ...tileRules,
  reduction: reductionRule,
  ignoreIndex: option.integer(-(2 ** 31)),
};

/**
 * The cross-entropy of logits x Wᵀ + bias, which are never there as a whole: forward and backward pass each compute them for
 * one tile of classes after the other (Wijmans et al. 2024, "Cut Your Losses in Large-Vocabulary Language Models"). Use it
 * instead of linear() and crossEntropy() for a large vocabulary. The backward pass computes the product once more. At its
 * peak it has the logits of a tile and their gradient (on the CPU only one of them), and the gradient of W, into which the gradients of the tiles are
 * computed.
 * Shape: x [N.., C], weight [V, C], targets i32 [N..] -> [], or [N..] for reduction 'none'. Throws ShapeError,
 * DTypeError and ConfigError. If a target is not a class, the run rejects with IndexError.
 */
export function linearCrossEntropy(
  x: Tensor,
  weight: Tensor,
  targets: Tensor,
  options: LinearCrossEntropyOptions = {},
): Tensor {
  const operation = 'linearCrossEntropy';
  checkOptions(operation, options, lossRules);
  requireTensors(operation, { x, weight, targets });
  requireIndexDType(operation, targets);
  const { reduction = 'mean', ignoreIndex = -100, ...tiles } = options;
  return composed(() => {
    const rows = elementCount(targets.shape);
    const flat = targets.reshape([rows]);
    const ignored = flat.eq(ignoreIndex);
    const classes = indicesInRange(ignored.where(0, flat), sizeAt(weight.shape, 0), operation);
    const { logSumExp, chosen } = linearLogSumExp(x, weight, classes, tiles);
    const losses = ignored.where(0, logSumExp.sub(chosen));
    if (reduction === 'none') return losses.reshape(targets.shape);
    if (reduction === 'sum') return losses.sum();
    return losses.sum().div(ignored.logicalNot().sum());
  });
}
