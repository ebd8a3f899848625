import { computeDType } from '../../dtype.ts';
import { gather } from '../../graph/build/index-ops.ts';
import { CallSite } from '../../graph/call-site.ts';
import { requireIndexDType } from '../../graph/infer-indices.ts';
import { elementCount, formatShape, sameShape, sizeAt } from '../../shape.ts';
import { ShapeError } from '../../spec/errors.ts';
import { full } from '../../tensor/create.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { type Reduction, reductionRule } from './reduction.ts';
import { checkOptions } from '../../spec/check-options.ts';
import * as option from '../../spec/option-rules.ts';
import type { OptionRules } from '../../spec/option-rules.ts';
import { composed } from '../../realize/small-values.ts';

export interface NllLossOptions {
  /** Default mean, over the targets that are not ignored. */
  readonly reduction?: Reduction;
  /** Targets of this value count nothing; default -100. */
  readonly ignoreIndex?: number;
}

export interface CrossEntropyOptions extends NllLossOptions {
  /** Share of the target's probability that is spread over all classes (Szegedy et al. 2016); default 0. */
  readonly labelSmoothing?: number;
}

const nllLossRules: OptionRules<NllLossOptions> = {
  reduction: reductionRule,
  ignoreIndex: option.integer(-(2 ** 31)),
};

const crossEntropyRules: OptionRules<CrossEntropyOptions> = {
  ...nllLossRules,
  labelSmoothing: option.share,
};

/**
 * Cross-entropy of the softmax of logits, as torch.nn.functional.cross_entropy (classes last).
 * Shape: logits [N.., V], targets i32 [N..] -> [], or [N..] for reduction 'none'.
 * Throws ShapeError, DTypeError, and ConfigError for a labelSmoothing outside [0, 1]; a target that is
 * no class is an IndexError of the run.
 */
export function crossEntropy(
  logits: Tensor,
  targets: Tensor,
  options: CrossEntropyOptions = {},
): Tensor {
  checkOptions('crossEntropy', options, crossEntropyRules);
  const { labelSmoothing = 0 } = options;
  return composed(() =>
    logLoss('crossEntropy', logits.logSoftmax(), targets, options, labelSmoothing),
  );
}

/**
 * Negative log-likelihood of log-probabilities.
 * Shape: logProbabilities [N.., V], targets i32 [N..] -> [], or [N..] for reduction 'none'.
 */
export function nllLoss(
  logProbabilities: Tensor,
  targets: Tensor,
  options: NllLossOptions = {},
): Tensor {
  checkOptions('nllLoss', options, nllLossRules);
  return composed(() => logLoss('nllLoss', logProbabilities, targets, options, 0));
}

function logLoss(
  operation: 'crossEntropy' | 'nllLoss',
  logProbabilities: Tensor,
  targets: Tensor,
  options: NllLossOptions,
  smoothing: number,
): Tensor {
  const { reduction = 'mean', ignoreIndex = -100 } = options;
  checkShapes(logProbabilities, targets);
  requireIndexDType(operation, targets);
  const classes = sizeAt(logProbabilities.shape, logProbabilities.ndim - 1);
  const rows = elementCount(targets.shape);
  const table = logProbabilities.reshape([rows, classes]);
  const flat = targets.reshape([rows]);
  const ignored = flat.eq(ignoreIndex);
  const target = ignored.where(0, flat);
  const chosen = gather(table.node, 1, target.unsqueeze(1).node, new CallSite(operation));
  const likelihood = new Tensor(chosen).reshape([rows]);
  const mixed =
    smoothing === 0 ? likelihood : likelihood.mul(1 - smoothing).add(table.mean(1).mul(smoothing));
  const losses = ignored.where(full([], 0, mixed.dtype), mixed.neg());
  if (reduction === 'none') return losses.reshape(targets.shape);
  if (reduction === 'sum') return losses.sum();
  // In f32 where losses have fewer bits: their sum may be beyond what the mean is.
  const wide = losses.to(computeDType(losses.dtype));
  return wide.sum().div(ignored.logicalNot().sum()).to(losses.dtype);
}

function checkShapes(table: Tensor, targets: Tensor): void {
  if (table.ndim > 0 && sameShape(table.shape.slice(0, -1), targets.shape)) return;
  throw new ShapeError(
    {
      asked: `a loss of classes of shape ${formatShape(table.shape)} and targets of shape ${formatShape(targets.shape)}`,
      found: 'targets that are not one class index per row',
      todo: `Use targets of shape ${formatShape(table.shape.slice(0, -1))}; classes are the last dim`,
    },
    { classes: table.shape, targets: targets.shape },
  );
}
