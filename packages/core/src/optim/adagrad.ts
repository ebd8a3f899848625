import { Optimizer, type UpdateRule } from './optimizer.ts';
import { checkSetting, type OptimizerInput, type OptimizerSettings } from './param-group.ts';
import { Scalar } from './scalar.ts';

/** Settings of `Adagrad`. */
export interface AdagradSettings extends OptimizerSettings {
  /** The learning rate at step t is lr / (1 + (t - 1) lrDecay). */
  lrDecay: number;
  weightDecay: number;
  /** The initial value of the sum of squared gradients. */
  initialAccumulatorValue: number;
  eps: number;
}

/** torch.optim.Adagrad (Duchi et al. 2011). */
export class Adagrad extends Optimizer<AdagradSettings> {
  static readonly typeName: string = 'Adagrad';

  /** Defaults: lr 1e-2, eps 1e-10, everything else 0. Throws ConfigError. */
  constructor(
    params: OptimizerInput<AdagradSettings>,
    settings: Partial<AdagradSettings> = {},
    ...more: readonly never[]
  ) {
    super(
      params,
      settings,
      {
        lr: 1e-2,
        lrDecay: 0,
        weightDecay: 0,
        initialAccumulatorValue: 0,
        eps: 1e-10,
      },
      more,
    );
  }

  protected override rule(settings: AdagradSettings, steps: number): UpdateRule {
    const { lr, lrDecay, weightDecay, initialAccumulatorValue } = settings;
    const rate = new Scalar(lr / (1 + (steps - 1) * lrDecay));
    const decay = new Scalar(weightDecay);
    const epsilon = new Scalar(settings.eps);
    const start = new Scalar(steps === 1 ? initialAccumulatorValue : 0);
    return (parameter, gradient, state) => {
      const { shape } = parameter;
      const g = weightDecay === 0 ? gradient : gradient.add(parameter.mul(decay.of(shape)));
      const sum = state.tensor('sum');
      const next = sum.add(start.of(shape)).add(g.square());
      sum.assign(next);
      const step = g.mul(rate.of(shape)).div(next.sqrt().add(epsilon.of(shape)));
      parameter.assign(parameter.sub(step));
    };
  }

  protected override get savedNames(): readonly string[] {
    return ['sum'];
  }

  protected override checkSettings(settings: AdagradSettings): void {
    checkSetting('lr', settings.lr, 0);
    checkSetting('lrDecay', settings.lrDecay, 0);
    checkSetting('weightDecay', settings.weightDecay, 0);
    checkSetting('initialAccumulatorValue', settings.initialAccumulatorValue, 0);
    checkSetting('eps', settings.eps, 0);
  }
}
