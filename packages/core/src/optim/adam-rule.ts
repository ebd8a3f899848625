import type { UpdateRule } from './optimizer.ts';
import { checkSetting, type OptimizerSettings } from './param-group.ts';
import { Scalar } from './scalar.ts';

export interface AdamSettings extends OptimizerSettings {
  /** Shares that the running means of gradient and squared gradient keep in a step. */
  betas: readonly [number, number];
  eps: number;
  weightDecay: number;
}

/**
 * Adam (Kingma and Ba 2014) in the order of operations of PyTorch's single-tensor form. Weight
 * decay goes into the gradient, or shrinks the parameter beside it (Loshchilov and Hutter 2019).
 */
export function adamRule(settings: AdamSettings, steps: number, decoupled: boolean): UpdateRule {
  const { lr, betas, weightDecay } = settings;
  const [beta1, beta2] = betas;
  const decay = new Scalar(decoupled ? 1 - lr * weightDecay : weightDecay);
  const take1 = new Scalar(1 - beta1);
  const keep2 = new Scalar(beta2);
  const take2 = new Scalar(1 - beta2);
  const correction2 = new Scalar(Math.sqrt(1 - beta2 ** steps));
  const eps = new Scalar(settings.eps);
  const stepSize = new Scalar(lr / (1 - beta1 ** steps));
  const decays = weightDecay !== 0;
  return (parameter, gradient, state) => {
    const { shape } = parameter;
    const g = decays && !decoupled ? gradient.add(parameter.mul(decay.of(shape))) : gradient;
    const p = decays && decoupled ? parameter.mul(decay.of(shape)) : parameter;
    const mean = state.tensor('exp_avg');
    const square = state.tensor('exp_avg_sq');
    const m = mean.add(g.sub(mean).mul(take1.of(shape)));
    const v = square.mul(keep2.of(shape)).add(g.mul(take2.of(shape)).mul(g));
    const denominator = v.sqrt().div(correction2.of(shape)).add(eps.of(shape));
    mean.assign(m);
    square.assign(v);
    parameter.assign(p.sub(m.mul(stepSize.of(shape)).div(denominator)));
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
