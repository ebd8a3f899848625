import type { HostArray } from '../serialization/host-array.ts';
import { elementCount } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';
import { descent, type MaximizeSettings } from './maximize.ts';
import { Optimizer, type UpdateRule } from './optimizer.ts';
import { checkSetting, type OptimizerInput } from './param-group.ts';
import { Scalar } from './scalar.ts';

/** Settings of `Adagrad`. */
export interface AdagradSettings extends MaximizeSettings {
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

  /** Defaults: lr 1e-2, eps 1e-10, everything else 0 or off. Throws ConfigError. */
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
        maximize: false,
      },
      more,
    );
  }

  protected override rule(settings: AdagradSettings, steps: number): UpdateRule {
    const { lr, lrDecay, weightDecay, initialAccumulatorValue } = settings;
    const rate = new Scalar(lr / (1 + (steps - 1) * lrDecay));
    const decay = new Scalar(weightDecay);
    const epsilon = new Scalar(settings.eps);
    return (parameter, gradient, state) => {
      const { shape } = parameter;
      const descending = descent(gradient, settings);
      const g = weightDecay === 0 ? descending : descending.add(parameter.mul(decay.of(shape)));
      const sum =
        state.tensors.get('sum') ?? state.set('sum', filled(shape, initialAccumulatorValue));
      const next = sum.add(g.square());
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

function filled(shape: Shape, value: number): HostArray {
  const values = new Float32Array(elementCount(shape)).fill(value);
  return { shape, dtype: 'f32', bytes: new Uint8Array(values.buffer) };
}
