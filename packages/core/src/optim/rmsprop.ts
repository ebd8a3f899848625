import { descent, type MaximizeSettings } from './maximize.ts';
import { Optimizer, type UpdateRule } from './optimizer.ts';
import { checkSetting, type OptimizerInput } from './param-group.ts';
import { Scalar } from './scalar.ts';

/** Settings of `RMSprop`. */
export interface RMSpropSettings extends MaximizeSettings {
  /** The share of its old value that the running mean of the squared gradient keeps in a step. */
  alpha: number;
  eps: number;
  weightDecay: number;
  momentum: number;
  /** Whether gradients are divided by the root of their variance instead of the root of their mean square. */
  centered: boolean;
}

/** torch.optim.RMSprop (Hinton 2012; centered: Graves 2013), in the order of operations of its single-tensor form. */
export class RMSprop extends Optimizer<RMSpropSettings> {
  static readonly typeName: string = 'RMSprop';

  /** Defaults: lr 1e-2, alpha 0.99, eps 1e-8, everything else off. Throws ConfigError. */
  constructor(
    params: OptimizerInput<RMSpropSettings>,
    settings: Partial<RMSpropSettings> = {},
    ...more: readonly never[]
  ) {
    super(
      params,
      settings,
      {
        lr: 1e-2,
        alpha: 0.99,
        eps: 1e-8,
        weightDecay: 0,
        momentum: 0,
        centered: false,
        maximize: false,
      },
      more,
    );
  }

  protected override rule(settings: RMSpropSettings): UpdateRule {
    const { weightDecay, momentum, centered } = settings;
    const rate = new Scalar(settings.lr);
    const keep = new Scalar(settings.alpha);
    const take = new Scalar(1 - settings.alpha);
    const epsilon = new Scalar(settings.eps);
    const decay = new Scalar(weightDecay);
    const keepBuffer = new Scalar(momentum);
    return (parameter, gradient, state) => {
      const { shape } = parameter;
      const descending = descent(gradient, settings);
      const g = weightDecay === 0 ? descending : descending.add(parameter.mul(decay.of(shape)));
      const square = state.tensor('square_avg');
      const nextSquare = square.mul(keep.of(shape)).add(g.mul(take.of(shape)).mul(g));
      square.assign(nextSquare);
      let variance = nextSquare;
      if (centered) {
        const mean = state.tensor('grad_avg');
        const nextMean = mean.add(g.sub(mean).mul(take.of(shape)));
        mean.assign(nextMean);
        variance = nextSquare.sub(nextMean.square());
      }
      const scaled = g.div(variance.sqrt().add(epsilon.of(shape)));
      let step = scaled;
      if (momentum !== 0) {
        const buffer = state.tensor('momentum_buffer');
        step = buffer.mul(keepBuffer.of(shape)).add(scaled);
        buffer.assign(step);
      }
      parameter.assign(parameter.sub(step.mul(rate.of(shape))));
    };
  }

  protected override get savedNames(): readonly string[] {
    return ['square_avg', 'grad_avg', 'momentum_buffer'];
  }

  protected override checkSettings(settings: RMSpropSettings): void {
    checkSetting('lr', settings.lr, 0);
    checkSetting('alpha', settings.alpha, 0);
    checkSetting('eps', settings.eps, 0);
    checkSetting('weightDecay', settings.weightDecay, 0);
    checkSetting('momentum', settings.momentum, 0);
  }
}
