import { adamMoments } from './adam-moments.ts';
import type { UpdateRule } from './optimizer.ts';
import { checkSetting, type OptimizerSettings } from './param-group.ts';
import { Scalar } from './scalar.ts';

/** Settings of `Adam`, `AdamW`, `AdamW8bit` and `Lamb`. */
export interface AdamSettings extends OptimizerSettings {
  /**
   * The shares of their old values that the running means of the gradient and of the squared gradient keep in a step.
   */
  betas: readonly [number, number];
  eps: number;
  weightDecay: number;
}

/**
 * Adam (Kingma and Ba 2014) in the order of operations of PyTorch's single-tensor form. Weight decay is added to the
 * gradient or, if `decoupled`, shrinks the parameter directly (Loshchilov and Hutter 2019).
 */
export function adamRule(settings: AdamSettings, steps: number, decoupled: boolean): UpdateRule {
  const { lr, betas, weightDecay } = settings;
  const moments = adamMoments(settings, steps);
  const decay = new Scalar(decoupled ? 1 - lr * weightDecay : weightDecay);
  const stepSize = new Scalar(lr / (1 - betas[0] ** steps));
  const decays = weightDecay !== 0;
  return (parameter, gradient, state) => {
    const { shape } = parameter;
    const g = decays && !decoupled ? gradient.add(parameter.mul(decay.of(shape))) : gradient;
    const p = decays && decoupled ? parameter.mul(decay.of(shape)) : parameter;
    const mean = state.tensor('exp_avg');
    const square = state.tensor('exp_avg_sq');
    const next = moments.next(mean, square, g);
    mean.assign(next.mean);
    square.assign(next.square);
    const step = next.mean.mul(stepSize.of(shape)).div(moments.denominator(next.square));
    parameter.assign(p.sub(step));
  };
}

/** Throws ConfigError for settings out of range. */
export function checkAdamSettings({ lr, betas, eps, weightDecay }: AdamSettings): void {
  checkSetting('lr', lr, 0);
  checkSetting('beta1', betas[0], 0, 1);
  checkSetting('beta2', betas[1], 0, 1);
  checkSetting('eps', eps, 0);
  checkSetting('weightDecay', weightDecay, 0);
}
