import { computeDType, kindOf } from '../../base/dtype-kind.ts';
import { gather } from '../../graph/ops/index-ops.ts';
import { CallSite } from '../../graph/call-site.ts';
import { requireIndexDType } from '../../graph/infer-indices.ts';
import { composed } from '../../realize/pending/small-values.ts';
import { elementCount, formatShape, normalizeDim, sameShape, sizeAt } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import type { Shape } from '../../spec/dtype.ts';
import { ConfigError, ShapeError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { requireTensors } from '../../tensor/check-arguments.ts';
import { full } from '../../tensor/create.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { requireShape } from './require-shape.ts';
import { type Reduction, reductionRule } from './reduction.ts';
import { widened } from './widened.ts';

/** Options of `nllLoss`. */
export interface NllLossOptions {
  /**
   * How losses are combined. Default: the mean over the targets that are not ignored. If classes have weights, it is a
   * mean with these weights.
   */
  readonly reduction?: Reduction;
  /** Targets of this value do not count. Default: -100. */
  readonly ignoreIndex?: number;
  /** The factor of the losses of each class. Default: 1. Shape: [V]. */
  readonly weight?: Tensor;
  /** The dim of the classes: 1 for the layout of PyTorch, such as [N, C, H, W]. Default: the last one. */
  readonly dim?: number;
}

/** Options of `crossEntropy`. */
export interface CrossEntropyOptions extends NllLossOptions {
  /**
   * The share of the target's probability that is distributed over all classes (Szegedy et al. 2016). Default:
   * 0.
   */
  readonly labelSmoothing?: number;
}

export const nllLossRules: OptionRules<NllLossOptions> = {
  reduction: reductionRule,
  ignoreIndex: option.integer(-(2 ** 31)),
  weight: option.instanceOf(Tensor),
  dim: option.integer(Number.MIN_SAFE_INTEGER),
};

export const crossEntropyRules: OptionRules<CrossEntropyOptions> = {
  ...nllLossRules,
  labelSmoothing: option.fraction,
};

/**
 * torch.nn.functional.cross_entropy: the cross-entropy of the softmax of logits. Classes are the last dim, or `dim`.
 * Targets are classes, or floats of the shape of the logits, which are the probability of each class. For
 * probabilities, the mean is over the rows.
 * Shape: logits [N.., V], targets i32 [N..] or floats [N.., V] -> [], or [N..] for reduction 'none'. With dim 1: logits
 * [N, V, ..], targets i32 [N, ..] or floats [N, V, ..].
 * Throws ShapeError, DTypeError, and ConfigError for a labelSmoothing outside [0, 1], for an ignoreIndex with
 * probabilities, and for probabilities with several dims and without `dim`. If a target is not a class, the run rejects
 * with IndexError.
 */
export function crossEntropy(
  logits: Tensor,
  targets: Tensor,
  options: CrossEntropyOptions = {},
): Tensor {
  const operation = 'crossEntropy';
  checkOptions(operation, options, crossEntropyRules);
  requireTensors(operation, { logits, targets });
  const { labelSmoothing = 0, ignoreIndex } = options;
  const isSoft = kindOf(targets.dtype) === 'float' && sameShape(targets.shape, logits.shape);
  if (isSoft && ignoreIndex !== undefined) throw ignoredProbabilities(ignoreIndex);
  if (isSoft && logits.ndim > 2 && options.dim === undefined) throw noClassDim(logits.shape);
  const dim = classDim(operation, options, logits.shape);
  return composed(() => {
    const table = classesLast(logits, dim).logSoftmax();
    if (isSoft) return softLoss(table, classesLast(targets, dim), options, labelSmoothing);
    checkShapes(logits, targets, dim);
    return logLoss(operation, table, targets, options, labelSmoothing);
  });
}

/**
 * The negative log-likelihood of log-probabilities. Classes are the last dim, or `dim`.
 * Shape: logProbabilities [N.., V], targets i32 [N..] -> [], or [N..] for reduction 'none'. With dim 1: [N, V,
 * ..], [N, ..].
 */
export function nllLoss(
  logProbabilities: Tensor,
  targets: Tensor,
  options: NllLossOptions = {},
): Tensor {
  checkOptions('nllLoss', options, nllLossRules);
  requireTensors('nllLoss', { logProbabilities, targets });
  const dim = classDim('nllLoss', options, logProbabilities.shape);
  return composed(() => {
    checkShapes(logProbabilities, targets, dim);
    const table = classesLast(widened(logProbabilities), dim);
    return logLoss('nllLoss', table, targets, options, 0);
  });
}

/**
 * Returns the dim of the classes, or undefined for a scalar. Throws ShapeError for a dim that does not exist, and for
 * weights that are not one for each class.
 */
function classDim(
  operation: string,
  { dim = -1, weight }: NllLossOptions,
  shape: Shape,
): number | undefined {
  if (shape.length === 0) return undefined;
  const found = normalizeDim(operation, dim, shape.length);
  if (weight !== undefined) {
    requireShape({ operation, name: 'weight', value: weight }, [['classes', sizeAt(shape, found)]]);
  }
  return found;
}

function classesLast(x: Tensor, dim: number | undefined): Tensor {
  return dim === undefined || dim === x.ndim - 1 ? x : x.movedim(dim, -1);
}

/** The loss for targets that are probabilities. Shape: [N.., V], [N.., V] -> [], or [N..]. */
function softLoss(
  logProbabilities: Tensor,
  targets: Tensor,
  { reduction = 'mean', weight }: NllLossOptions,
  smoothing: number,
): Tensor {
  const classes = sizeAt(targets.shape, targets.ndim - 1);
  const smooth =
    smoothing === 0 ? targets : targets.mul(1 - smoothing).add(smoothing / Math.max(1, classes));
  const each = logProbabilities.mul(smooth).neg();
  const losses = (weight === undefined ? each : each.mul(weight.to(each.dtype))).sum(-1);
  if (reduction === 'none') return losses;
  return reduction === 'sum' ? losses.sum() : losses.mean();
}

function logLoss(
  operation: 'crossEntropy' | 'nllLoss',
  logProbabilities: Tensor,
  targets: Tensor,
  { reduction = 'mean', ignoreIndex = -100, weight }: NllLossOptions,
  smoothing: number,
): Tensor {
  requireIndexDType(operation, targets);
  const { dtype, shape } = logProbabilities;
  const classes = sizeAt(shape, shape.length - 1);
  const rows = elementCount(targets.shape);
  const table = logProbabilities.reshape([rows, classes]);
  const flat = targets.reshape([rows]);
  const ignored = flat.eq(ignoreIndex);
  const target = ignored.where(0, flat);
  const chosen = gather(table.node, 1, target.unsqueeze(1).node, new CallSite(operation));
  const likelihood = new Tensor(chosen).reshape([rows]);
  // The weight of each row's class.
  const rowWeights = weight?.to(dtype).indexSelect(0, target);
  const own = rowWeights === undefined ? likelihood : likelihood.mul(rowWeights);
  const spread = weight === undefined ? table : table.mul(weight.to(dtype));
  const mixed = smoothing === 0 ? own : own.mul(1 - smoothing).add(spread.mean(1).mul(smoothing));
  const zero = full([], 0, mixed.dtype);
  const losses = ignored.where(zero, mixed.neg());
  if (reduction === 'none') return losses.reshape(targets.shape);
  if (reduction === 'sum') return losses.sum();
  // The sum is computed in f32 if losses have fewer bits, because it may exceed the range of their dtype.
  const wide = computeDType(losses.dtype);
  const counted =
    rowWeights === undefined ? ignored.logicalNot() : ignored.where(zero, rowWeights).to(wide);
  return losses.to(wide).sum().div(counted.sum()).to(losses.dtype);
}

function checkShapes(table: Tensor, targets: Tensor, dim: number | undefined): void {
  const rows = dim === undefined ? [] : table.shape.toSpliced(dim, 1);
  if (dim !== undefined && sameShape(rows, targets.shape)) return;
  const isSecond = table.ndim > 2 && sameShape(table.shape.toSpliced(1, 1), targets.shape);
  const place = dim === table.ndim - 1 ? 'the last dim' : `dim ${dim}`;
  throw new ShapeError(
    {
      asked: `a loss of classes of shape ${formatShape(table.shape)} and targets of shape ${formatShape(targets.shape)}`,
      found: 'targets that are not one class index per row',
      todo: isSecond
        ? 'Pass dim: 1 where the classes are dim 1, as in PyTorch'
        : `Use targets of shape ${formatShape(rows)}; classes are ${place}`,
    },
    { classes: table.shape, targets: targets.shape },
  );
}

function noClassDim(shape: Shape): ConfigError {
  return new ConfigError(
    {
      asked: `crossEntropy of logits and probabilities of shape ${formatShape(shape)}`,
      found: `${shape.length} dims, of which any may be that of the classes`,
      todo: 'Pass dim: 1 for what PyTorch takes, and dim: -1 where the classes are last',
    },
    { shape },
  );
}

function ignoredProbabilities(ignoreIndex: number): ConfigError {
  return new ConfigError(
    {
      asked: `crossEntropy with ignoreIndex ${ignoreIndex}`,
      found: 'targets that are probabilities of classes, and no indices',
      todo: 'Leave ignoreIndex out, and give rows that are to count nothing probabilities of 0',
    },
    { ignoreIndex },
  );
}
