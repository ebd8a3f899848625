import { Optimizer, type UpdateRule } from './optimizer.ts';
import { checkSetting, type OptimizerInput, type OptimizerSettings } from './param-group.ts';
import { Scalar } from './scalar.ts';

/** Settings of `Lion`. */
export interface LionSettings extends OptimizerSettings {
  /**
   * The share of the momentum in the direction of a step, and the share of its old value that the momentum keeps in a
   * step.
   */
  betas: readonly [number, number];
  /** Decoupled weight decay: it shrinks the parameters directly. */
  weightDecay: number;
}

/**
 * Lion (Chen et al. 2023, algorithm 2): updates by the sign of the momentum. Use a learning rate of a third to a tenth
 * of AdamW's.
 */
export class Lion extends Optimizer<LionSettings> {
  static readonly typeName: string = 'Lion';

  /** Defaults: lr 1e-4, betas [0.9, 0.99], weightDecay 0. Throws ConfigError. */
  constructor(
    params: OptimizerInput<LionSettings>,
    settings: Partial<LionSettings> = {},
    ...more: readonly never[]
  ) {
    super(params, settings, { lr: 1e-4, betas: [0.9, 0.99], weightDecay: 0 }, more);
  }

  protected override rule({ lr, betas, weightDecay }: LionSettings): UpdateRule {
    const rate = new Scalar(lr);
    const decay = new Scalar(1 - lr * weightDecay);
    const [keep1, take1] = [new Scalar(betas[0]), new Scalar(1 - betas[0])];
    const [keep2, take2] = [new Scalar(betas[1]), new Scalar(1 - betas[1])];
    return (parameter, gradient, state) => {
      const { shape } = parameter;
      const mean = state.tensor('exp_avg');
      const mixed = mean.mul(keep1.of(shape)).add(gradient.mul(take1.of(shape)));
      const kept = weightDecay === 0 ? parameter : parameter.mul(decay.of(shape));
      parameter.assign(kept.sub(mixed.sign().mul(rate.of(shape))));
      mean.assign(mean.mul(keep2.of(shape)).add(gradient.mul(take2.of(shape))));
    };
  }

  protected override get savedNames(): readonly string[] {
    return ['exp_avg'];
  }

  protected override checkSettings({ lr, betas, weightDecay }: LionSettings): void {
    checkSetting('lr', lr, 0);
    checkSetting('beta1', betas[0], 0, 1);
    checkSetting('beta2', betas[1], 0, 1);
    checkSetting('weightDecay', weightDecay, 0);
  }
}
