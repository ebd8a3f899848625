import { ConfigError } from '../spec/errors.ts';
import { descent, type MaximizeSettings } from './maximize.ts';
import { Optimizer, type UpdateRule } from './optimizer.ts';
import { checkSetting, type OptimizerInput } from './param-group.ts';
import { Scalar } from './scalar.ts';

/** Settings of `SGD`. */
export interface SGDSettings extends MaximizeSettings {
  momentum: number;
  /** The share of the gradient that does not enter the momentum. */
  dampening: number;
  nesterov: boolean;
  weightDecay: number;
}

const bufferName = 'momentum_buffer';

/** torch.optim.SGD: gradient descent, with momentum (Sutskever et al. 2013) if `momentum` is not 0. */
export class SGD extends Optimizer<SGDSettings> {
  static readonly typeName: string = 'SGD';

  /** Defaults: lr 1e-3, everything else off. Throws ConfigError. */
  constructor(
    params: OptimizerInput<SGDSettings>,
    settings: Partial<SGDSettings> = {},
    ...more: readonly never[]
  ) {
    super(
      params,
      settings,
      {
        lr: 1e-3,
        momentum: 0,
        dampening: 0,
        nesterov: false,
        weightDecay: 0,
        maximize: false,
      },
      more,
    );
  }

  protected override rule(settings: SGDSettings, steps: number): UpdateRule {
    const { momentum, nesterov, weightDecay } = settings;
    const rate = new Scalar(settings.lr);
    const decay = new Scalar(weightDecay);
    const keep = new Scalar(momentum);
    const [whole, damped] = [new Scalar(1), new Scalar(1 - settings.dampening)];
    return (parameter, gradient, state) => {
      const { shape } = parameter;
      const descending = descent(gradient, settings);
      const decayed =
        weightDecay === 0 ? descending : descending.add(parameter.mul(decay.of(shape)));
      if (momentum === 0) {
        parameter.assign(parameter.sub(decayed.mul(rate.of(shape))));
        return;
      }
      // The first momentum is the gradient itself, undamped, also where the first steps had none.
      const take = steps === 1 || !state.tensors.has(bufferName) ? whole : damped;
      const buffer = state.tensor(bufferName);
      const velocity = buffer.mul(keep.of(shape)).add(decayed.mul(take.of(shape)));
      const direction = nesterov ? decayed.add(velocity.mul(keep.of(shape))) : velocity;
      buffer.assign(velocity);
      parameter.assign(parameter.sub(direction.mul(rate.of(shape))));
    };
  }

  protected override get savedNames(): readonly string[] {
    return [bufferName];
  }

  protected override checkSettings(settings: SGDSettings): void {
    const { lr, momentum, dampening, nesterov, weightDecay } = settings;
    checkSetting('lr', lr, 0);
    checkSetting('momentum', momentum, 0);
    checkSetting('dampening', dampening, Number.NEGATIVE_INFINITY);
    checkSetting('weightDecay', weightDecay, 0);
    if (nesterov && (momentum === 0 || dampening !== 0)) {
      throw new ConfigError(
        {
          asked: 'SGD with nesterov',
          found: `momentum ${momentum} and dampening ${dampening}`,
          todo: 'Use a momentum above 0 and no dampening',
        },
        { momentum, dampening },
      );
    }
  }
}
