import { composed } from '../../realize/pending/small-values.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { reduceLosses, type Reduction, reductionRule } from './reduction.ts';
import { requireSameShape } from './same-shape.ts';
import { widened } from './widened.ts';

/** Options of the losses. */
export interface LossOptions {
  /** How losses are combined. Default: 'mean'. */
  readonly reduction?: Reduction;
}

/** Options of `smoothL1Loss`. */
export interface SmoothL1Options extends LossOptions {
  /** Differences below beta are squared. Default: 1. With 0, the loss is l1Loss. */
  readonly beta?: number;
}

/** Options of `huberLoss`. */
export interface HuberOptions extends LossOptions {
  /** Differences up to delta are squared. Default: 1. */
  readonly delta?: number;
}

export const lossRules: OptionRules<LossOptions> = { reduction: reductionRule };
export const smoothL1Rules: OptionRules<SmoothL1Options> = {
  ...lossRules,
  beta: option.nonNegative,
};
export const huberRules: OptionRules<HuberOptions> = { ...lossRules, delta: option.positive };

/**
 * The squared error (input - target)².
 * Shape: input N, target N -> [], or N for reduction 'none'.
 */
export function mseLoss(input: Tensor, target: Tensor, options: LossOptions = {}): Tensor {
  checkOptions('mseLoss', options, lossRules);
  requireSameShape('mseLoss', input, target);
  return composed(() =>
    reduceLosses(widened(input).sub(widened(target)).square(), options.reduction),
  );
}

/**
 * The absolute error |input - target|.
 * Shape: input N, target N -> [], or N for reduction 'none'.
 */
export function l1Loss(input: Tensor, target: Tensor, options: LossOptions = {}): Tensor {
  checkOptions('l1Loss', options, lossRules);
  requireSameShape('l1Loss', input, target);
  return composed(() => reduceLosses(widened(input).sub(widened(target)).abs(), options.reduction));
}

/**
 * With d = |input - target|: d² / (2 beta) below beta, otherwise d - beta / 2 (Girshick 2015).
 * Shape: input N, target N -> [], or N for reduction 'none'.
 */
export function smoothL1Loss(input: Tensor, target: Tensor, options: SmoothL1Options = {}): Tensor {
  checkOptions('smoothL1Loss', options, smoothL1Rules);
  requireSameShape('smoothL1Loss', input, target);
  const { beta = 1, reduction } = options;
  if (beta === 0) return l1Loss(input, target, reduction === undefined ? {} : { reduction });
  return composed(() => {
    const difference = widened(input).sub(widened(target));
    const [near, distance] = [difference.square().mul(0.5 / beta), difference.abs()];
    return reduceLosses(distance.lt(beta).where(near, distance.sub(beta / 2)), reduction);
  });
}

/**
 * With d = |input - target|: d² / 2 up to delta, otherwise delta (d - delta / 2) (Huber 1964).
 * Shape: input N, target N -> [], or N for reduction 'none'.
 */
export function huberLoss(input: Tensor, target: Tensor, options: HuberOptions = {}): Tensor {
  checkOptions('huberLoss', options, huberRules);
  requireSameShape('huberLoss', input, target);
  const { delta = 1, reduction } = options;
  return composed(() => {
    const difference = widened(input).sub(widened(target));
    const [near, distance] = [difference.square().mul(0.5), difference.abs()];
    const far = distance.sub(delta / 2).mul(delta);
    return reduceLosses(distance.lt(delta).where(near, far), reduction);
  });
}
