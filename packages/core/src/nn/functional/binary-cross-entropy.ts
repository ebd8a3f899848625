import { computeDType } from '../../base/dtype-kind.ts';
import { composed } from '../../realize/pending/small-values.ts';
import { broadcastsTo, formatShape } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import { ShapeError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { lossRules, type LossOptions } from './losses.ts';
import { reduceLosses } from './reduction.ts';
import { requireSameShape } from './same-shape.ts';
import { widened } from './widened.ts';

/** Options of `binaryCrossEntropy`. */
export interface BinaryCrossEntropyOptions extends LossOptions {
  /** The factor of each loss, broadcast to the losses. */
  readonly weight?: Tensor;
}

/** Options of `binaryCrossEntropyWithLogits`. */
export interface BinaryCrossEntropyWithLogitsOptions extends BinaryCrossEntropyOptions {
  /** The factor of the losses of positive targets, broadcast to the losses. It is [C] for C classes. */
  readonly posWeight?: Tensor;
}

/** Options of `sigmoidFocalLoss`. */
export interface SigmoidFocalLossOptions extends LossOptions {
  /** The weight of positive targets. Negative targets have the weight 1 - alpha. -1: no weights. Default: 0.25. */
  readonly alpha?: number;
  /** The exponent of 1 - p. The larger it is, the less easy targets count. Default: 2. */
  readonly gamma?: number;
}

export const entropyRules: OptionRules<BinaryCrossEntropyOptions> = {
  ...lossRules,
  weight: option.instanceOf(Tensor),
};
export const logitsRules: OptionRules<BinaryCrossEntropyWithLogitsOptions> = {
  ...entropyRules,
  posWeight: option.instanceOf(Tensor),
};
const focalRules: OptionRules<SigmoidFocalLossOptions> = {
  ...lossRules,
  alpha: option.either(option.fraction, option.oneOf(-1)),
  gamma: option.nonNegative,
};

/**
 * -(t log p + (1 - t) log(1 - p)) for probabilities p and targets t in [0, 1]. As in PyTorch, a logarithm is at
 * least -100 and its slope at most 1e12. A p outside [0, 1] gives NaN. For logits, binaryCrossEntropyWithLogits
 * is more exact.
 * Shape: probabilities N, targets N -> [], or N for reduction 'none'.
 */
export function binaryCrossEntropy(
  probabilities: Tensor,
  targets: Tensor,
  options: BinaryCrossEntropyOptions = {},
): Tensor {
  const operation = 'binaryCrossEntropy';
  checkOptions(operation, options, entropyRules);
  requireSameShape(operation, probabilities, targets);
  const { weight, reduction } = options;
  requireBroadcast(operation, { weight }, probabilities);
  return composed(() => {
    const { dtype } = widened(probabilities);
    // 16-bit floats do not hold the bounds of logarithms and slopes.
    const [wide, wanted] = [inComputeDType(probabilities), inComputeDType(targets)];
    const present = wanted.mul(boundedLog(wide));
    const missing = wanted.neg().add(1).mul(boundedLogOfRest(wide));
    const losses = present.add(missing).neg().to(dtype);
    return reduceLosses(weighted(losses, weight), reduction);
  });
}

/**
 * The cross-entropy of sigmoid(logits) and targets in [0, 1], as (1 - t) x + log(1 + exp(-x)), which is exact
 * for large logits.
 * Shape: logits N, targets N -> [], or N for reduction 'none'.
 */
export function binaryCrossEntropyWithLogits(
  logits: Tensor,
  targets: Tensor,
  options: BinaryCrossEntropyWithLogitsOptions = {},
): Tensor {
  const operation = 'binaryCrossEntropyWithLogits';
  checkOptions(operation, options, logitsRules);
  requireSameShape(operation, logits, targets);
  const { weight, posWeight, reduction } = options;
  requireBroadcast(operation, { weight, posWeight }, logits);
  return composed(() => {
    const losses = logitsLoss(widened(logits), widened(targets), posWeight);
    return reduceLosses(weighted(losses, weight), reduction);
  });
}

/**
 * Binary cross-entropy of sigmoid(logits), multiplied by (1 - p)^gamma, where p is the probability of the
 * target (Lin et al. 2017). This is torchvision's sigmoid_focal_loss, but with the mean by default.
 * Shape: logits N, targets N -> [], or N for reduction 'none'.
 */
export function sigmoidFocalLoss(
  logits: Tensor,
  targets: Tensor,
  options: SigmoidFocalLossOptions = {},
): Tensor {
  const operation = 'sigmoidFocalLoss';
  checkOptions(operation, options, focalRules);
  requireSameShape(operation, logits, targets);
  const { alpha = 0.25, gamma = 2, reduction } = options;
  return composed(() => {
    const [wide, wanted] = [widened(logits), widened(targets)];
    const probability = wide.sigmoid();
    const missing = wanted.neg().add(1);
    const off = probability.mul(missing).add(probability.neg().add(1).mul(wanted));
    const losses = logitsLoss(wide, wanted).mul(off.pow(gamma));
    if (alpha === -1) return reduceLosses(losses, reduction);
    const weights = wanted.mul(alpha).add(missing.mul(1 - alpha));
    return reduceLosses(losses.mul(weights), reduction);
  });
}

function logitsLoss(logits: Tensor, targets: Tensor, posWeight?: Tensor): Tensor {
  const missing = targets.neg().add(1);
  const softplus = logits.neg().softplus();
  const positive =
    posWeight === undefined ? softplus : softplus.mul(posWeight.sub(1).mul(targets).add(1));
  return missing.mul(logits).add(positive);
}

function weighted(losses: Tensor, weight: Tensor | undefined): Tensor {
  return weight === undefined ? losses : losses.mul(weight);
}

function inComputeDType(x: Tensor): Tensor {
  return x.to(computeDType(x.dtype));
}

/** The least value of logarithms, and their greatest slope. */
const [least, steepest] = [-100, 1e12];

/** log x. Below 1e-12 it is a straight line, so that there is a slope at 0. Shape: N -> N. */
function boundedLog(x: Tensor): Tensor {
  const isSmall = x.lt(1 / steepest);
  return isSmall.where(lineAt(x), isSmall.where(1, x).log());
}

/** log(1 - x). Near 1 it is a straight line. Shape: N -> N. */
function boundedLogOfRest(x: Tensor): Tensor {
  const rest = x.neg().add(1);
  const isSmall = rest.lt(1 / steepest);
  return isSmall.where(lineAt(rest), isSmall.where(0, x).neg().log1p());
}

function lineAt(x: Tensor): Tensor {
  const fixed = x.detach();
  return fixed.log().maximum(least).add(x.sub(fixed).mul(steepest));
}

/** Throws ShapeError for a factor that does not broadcast to the losses, and would make more losses than there are. */
function requireBroadcast(
  operation: string,
  factors: Readonly<Record<string, Tensor | undefined>>,
  { shape }: Tensor,
): void {
  for (const [name, factor] of Object.entries(factors)) {
    if (factor === undefined || broadcastsTo(factor.shape, shape)) continue;
    throw new ShapeError(
      {
        asked: `${operation} with ${name} of shape ${formatShape(factor.shape)}`,
        found: `losses of shape ${formatShape(shape)}, to which it does not broadcast`,
        todo: 'Use sizes of 1 or those of the losses',
      },
      { [name]: factor.shape, losses: shape },
    );
  }
}
