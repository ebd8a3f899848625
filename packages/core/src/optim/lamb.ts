import { sumOverParts } from './sum-over-parts.ts';
import { stack } from '../tensor/create.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { adamMoments } from './adam-moments.ts';
import { checkAdamSettings, type AdamMomentSettings } from './adam-rule.ts';
import { Optimizer, type UpdateRule } from './optimizer.ts';
import type { OptimizerInput } from './param-group.ts';
import { Scalar } from './scalar.ts';

/**
 * LAMB (You et al. 2020, algorithm 2). The direction of an update is that of Adam with decoupled weight decay.
 * Its length for each parameter is the learning rate times the norm of the parameter. Norms are those of whole
 * parameters, even if ranks have parts of them. If a norm is 0, the direction keeps its length.
 */
export class Lamb extends Optimizer<AdamMomentSettings> {
  static readonly typeName: string = 'Lamb';

  /** Defaults: lr 1e-3, betas [0.9, 0.999], eps 1e-6, weightDecay 1e-2. Throws ConfigError. */
  constructor(
    params: OptimizerInput<AdamMomentSettings>,
    settings: Partial<AdamMomentSettings> = {},
    ...more: readonly never[]
  ) {
    super(params, settings, { lr: 1e-3, betas: [0.9, 0.999], eps: 1e-6, weightDecay: 1e-2 }, more);
  }

  protected override rule(settings: AdamMomentSettings, steps: number): UpdateRule {
    const moments = adamMoments(settings, steps);
    const correction = new Scalar(1 - settings.betas[0] ** steps);
    const rate = new Scalar(settings.lr);
    const decay = new Scalar(settings.weightDecay);
    return (parameter, gradient, state) => {
      const [mean, square] = [state.tensor('exp_avg'), state.tensor('exp_avg_sq')];
      const next = moments.next(mean, square, gradient);
      const { shape } = parameter;
      const direction = next.mean
        .div(correction.of(shape))
        .div(moments.denominator(next.square))
        .add(parameter.mul(decay.of(shape)));
      const step = direction.mul(trustRatio(parameter, direction).mul(rate.of([])));
      mean.assign(next.mean);
      square.assign(next.square);
      parameter.assign(parameter.sub(step));
    };
  }

  protected override get savedNames(): readonly string[] {
    return ['exp_avg', 'exp_avg_sq'];
  }

  protected override checkSettings(settings: AdamMomentSettings): void {
    checkAdamSettings(settings);
  }
}

/** The norm of the parameter divided by the norm of the direction, or 1 if either is 0. Shape: N, N -> []. */
function trustRatio(parameter: Tensor, direction: Tensor): Tensor {
  const own = stack([parameter.square().sum(), direction.square().sum()]);
  const squares = sumOverParts(parameter, own);
  const [length, stepLength] = [0, 1].map((i) =>
    squares
      .slice(0, i, i + 1)
      .sqrt()
      .reshape([]),
  );
  if (length === undefined || stepLength === undefined) throw new RangeError('two norms');
  const known = length.gt(0).logicalAnd(stepLength.gt(0));
  return known.where(length.div(stepLength), 1);
}
