import { formatShape, sizeAt } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';
import { ConfigError } from '../spec/errors.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { Optimizer, type UpdateRule } from './optimizer.ts';
import {
  checkSetting,
  type OptimizerInput,
  type OptimizerSettings,
  type ParamGroupInput,
  tensorsOf,
} from './param-group.ts';
import { Scalar } from './scalar.ts';

/** How the learning rate of a matrix depends on its shape. */
export type MuonAdjustment = 'original' | 'matchRmsAdamW' | 'spectralUnclamped';

/** The factor of the learning rate for a matrix of R rows and C columns. */
const adjustments: Readonly<Record<MuonAdjustment, (rows: number, columns: number) => number>> = {
  /** sqrt(max(1, R / C)) (Jordan et al. 2024). */
  original: (rows, columns) => Math.sqrt(Math.max(1, rows / columns)),
  /** 0.2 sqrt(max(R, C)): the learning rates and weight decays that suit AdamW can be used (Liu et al. 2025). */
  matchRmsAdamW: (rows, columns) => 0.2 * Math.sqrt(Math.max(rows, columns)),
  /** sqrt(R / C) (Bernstein 2025). */
  spectralUnclamped: (rows, columns) => Math.sqrt(rows / columns),
};

/** Settings of `Muon`. */
export interface MuonSettings extends OptimizerSettings {
  /** Decoupled weight decay: it shrinks the parameters directly. */
  weightDecay: number;
  momentum: number;
  nesterov: boolean;
  /** The coefficients of the polynomial a x + b x³ + c x⁵ that is applied to singular values. */
  nsCoefficients: readonly [number, number, number];
  /** The least norm by which a momentum is divided. */
  eps: number;
  /** The number of times that the polynomial is applied. */
  nsSteps: number;
  adjustLrFn: MuonAdjustment;
}

/**
 * torch.optim.Muon (Jordan et al. 2024): updates by the momentum after its singular values are made about 1. Use it for
 * the matrices of hidden layers, and another optimizer for biases, norms and embeddings. It computes in f32 where
 * PyTorch rounds to bfloat16. If ranks divide a matrix, each rank collects the whole momentum for a step.
 */
export class Muon extends Optimizer<MuonSettings> {
  static readonly typeName: string = 'Muon';

  /**
   * Defaults: lr 1e-3, weightDecay 0.1, momentum 0.95, nesterov, nsCoefficients [3.4445, -4.775, 2.0315], eps
   * 1e-7, nsSteps 5, adjustLrFn 'original'. Throws ConfigError, also for parameters that are not matrices.
   */
  constructor(
    params: OptimizerInput<MuonSettings>,
    settings: Partial<MuonSettings> = {},
    ...more: readonly never[]
  ) {
    super(
      params,
      settings,
      {
        lr: 1e-3,
        weightDecay: 0.1,
        momentum: 0.95,
        nesterov: true,
        nsCoefficients: [3.4445, -4.775, 2.0315],
        eps: 1e-7,
        nsSteps: 5,
        adjustLrFn: 'original',
      },
      more,
    );
    this.#requireMatrices();
  }

  /** Throws the errors of the constructor. */
  override addParamGroup(input: ParamGroupInput<MuonSettings>): void {
    const params = tensorsOf('Muon', input.params);
    for (const parameter of params) requireMatrix(parameter);
    super.addParamGroup({ ...input, params });
  }

  protected override rule(settings: MuonSettings): UpdateRule {
    const { lr, momentum, nesterov, weightDecay } = settings;
    const take = new Scalar(1 - momentum);
    const ahead = new Scalar(momentum);
    const decay = new Scalar(1 - lr * weightDecay);
    const rates = new Map<string, Scalar>();
    const rateOf = (shape: Shape): Scalar => {
      const [rows, columns] = [sizeAt(shape, 0), sizeAt(shape, 1)];
      const key = formatShape(shape);
      const rate =
        rates.get(key) ?? new Scalar(lr * adjustments[settings.adjustLrFn](rows, columns));
      rates.set(key, rate);
      return rate;
    };
    return (parameter, gradient, state, whole) => {
      const { shape, wholeShape } = parameter;
      const buffer = state.tensor('momentum_buffer');
      const mean = buffer.add(gradient.sub(buffer).mul(take.of(shape)));
      buffer.assign(mean);
      const direction = nesterov ? gradient.add(mean.sub(gradient).mul(ahead.of(shape))) : mean;
      const update = whole.partOf(orthogonalized(whole.wholeOf(direction), settings));
      const kept = weightDecay === 0 ? parameter : parameter.mul(decay.of(shape));
      parameter.assign(kept.sub(update.mul(rateOf(wholeShape).of(shape))));
    };
  }

  protected override get savedNames(): readonly string[] {
    return ['momentum_buffer'];
  }

  protected override checkSettings(settings: MuonSettings): void {
    const { lr, weightDecay, momentum, eps, nsSteps, adjustLrFn } = settings;
    checkSetting('lr', lr, 0);
    checkSetting('weightDecay', weightDecay, 0);
    checkSetting('momentum', momentum, 0);
    checkSetting('eps', eps, 0);
    checkSetting('nsSteps', nsSteps, 1, 100);
    if (Number.isInteger(nsSteps) && Object.hasOwn(adjustments, adjustLrFn)) return;
    throw new ConfigError(
      {
        asked: 'a Muon optimizer',
        found: `nsSteps ${nsSteps} and adjustLrFn '${adjustLrFn}'`,
        todo: `Use a whole number of steps, and one of ${Object.keys(adjustments).join(', ')}`,
      },
      { nsSteps, adjustLrFn },
    );
  }

  #requireMatrices(): void {
    for (const { params } of this.paramGroups) for (const each of params) requireMatrix(each);
  }
}

/**
 * Turns U S V^T into U f(S) V^T, where f applies the polynomial `nsSteps` times and gives about 1. Shape: [R, C] -> [R,
 * C].
 */
function orthogonalized(
  matrix: Tensor,
  { nsCoefficients, nsSteps, eps }: Pick<MuonSettings, 'nsCoefficients' | 'nsSteps' | 'eps'>,
): Tensor {
  const [a, b, c] = nsCoefficients;
  const isTall = sizeAt(matrix.shape, 0) > sizeAt(matrix.shape, 1);
  const wide = isTall ? matrix.transpose(0, 1) : matrix;
  let x = wide.div(wide.square().sum().sqrt().maximum(eps));
  for (let step = 0; step < nsSteps; step++) {
    const gram = x.matmul(x, { transposeB: true });
    const update = gram.mul(b).add(gram.matmul(gram).mul(c));
    x = x.mul(a).add(update.matmul(x));
  }
  return isTall ? x.transpose(0, 1) : x;
}

function requireMatrix(parameter: Tensor): void {
  const { shape } = parameter;
  if (shape.length === 2) return;
  throw new ConfigError(
    {
      asked: `Muon of a parameter of shape ${formatShape(shape)}`,
      found: 'no matrix',
      todo: 'Give Muon the parameters of 2 dims, and the others to another optimizer, as AdamW',
    },
    { shape },
  );
}
