import type { Tensor } from '../tensor/tensor.ts';
import { adamMoments } from './adam-moments.ts';
import { descent, type MaximizeSettings } from './maximize.ts';
import type { UpdateRule } from './optimizer.ts';
import { checkSetting, type OptimizerSettings } from './param-group.ts';
import type { ParameterState } from './parameter-state.ts';
import { Scalar } from './scalar.ts';

/** Settings of optimizers with the running means of Adam, such as `AdamW8bit` and `Lamb`. */
export interface AdamMomentSettings extends OptimizerSettings {
  /**
   * The shares of their old values that the running means of the gradient and of the squared gradient keep in a step.
   */
  betas: readonly [number, number];
  eps: number;
  weightDecay: number;
}

/** Settings of `Adam` and `AdamW`. */
export interface AdamSettings extends AdamMomentSettings, MaximizeSettings {
  /**
   * Whether updates are divided by the root of the largest running mean so far of the squared gradient instead of the
   * latest (Reddi et al. 2018).
   */
  amsgrad: boolean;
}

const largestName = 'max_exp_avg_sq';

/** The states of `adamRule`, by PyTorch's names. */
export const adamStates: readonly string[] = ['exp_avg', 'exp_avg_sq', largestName];

/**
 * Adam (Kingma and Ba 2014) in the order of operations of PyTorch's single-tensor form. Weight decay is added to the
 * gradient or, if `decoupled`, shrinks the parameter directly (Loshchilov and Hutter 2019).
 */
export function adamRule(settings: AdamSettings, steps: number, decoupled: boolean): UpdateRule {
  const { lr, betas, weightDecay, amsgrad } = settings;
  const moments = adamMoments(settings, steps);
  const decay = new Scalar(decoupled ? 1 - lr * weightDecay : weightDecay);
  const stepSize = new Scalar(lr / (1 - betas[0] ** steps));
  const decays = weightDecay !== 0;
  return (parameter, gradient, state) => {
    const { shape } = parameter;
    const descending = descent(gradient, settings);
    const g = decays && !decoupled ? descending.add(parameter.mul(decay.of(shape))) : descending;
    const p = decays && decoupled ? parameter.mul(decay.of(shape)) : parameter;
    const mean = state.tensor('exp_avg');
    const square = state.tensor('exp_avg_sq');
    const next = moments.next(mean, square, g);
    mean.assign(next.mean);
    square.assign(next.square);
    const divisor = amsgrad ? largest(state, next.square) : next.square;
    const step = next.mean.mul(stepSize.of(shape)).div(moments.denominator(divisor));
    parameter.assign(p.sub(step));
  };
}

/** The largest running mean of the squared gradient so far, which it keeps. Shape: N -> N. */
function largest(state: ParameterState, square: Tensor): Tensor {
  const kept = state.tensor(largestName);
  const next = kept.maximum(square);
  kept.assign(next);
  return next;
}

/** Throws ConfigError for settings out of range. */
export function checkAdamSettings({ lr, betas, eps, weightDecay }: AdamMomentSettings): void {
  checkSetting('lr', lr, 0);
  checkSetting('beta1', betas[0], 0, 1);
  checkSetting('beta2', betas[1], 0, 1);
  checkSetting('eps', eps, 0);
  checkSetting('weightDecay', weightDecay, 0);
}
