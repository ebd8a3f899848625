import { replicated } from '../layout/layout.ts';
import { elementCount } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { descent, type MaximizeSettings } from './maximize.ts';
import { Optimizer, type UpdateRule } from './optimizer.ts';
import { checkSetting, type OptimizerInput } from './param-group.ts';
import type { ParameterState } from './parameter-state.ts';
import { Scalar } from './scalar.ts';
import type { StateType } from './state-type.ts';
import { sumOverParts } from './sum-over-parts.ts';

/** Settings of `Adafactor`. */
export interface AdafactorSettings extends MaximizeSettings {
  /** At step t, the weight of the new squared gradient in the running mean square is t ** beta2Decay. */
  beta2Decay: number;
  /** The least root of a mean square, and the least root mean square of a parameter. */
  eps: readonly [number, number];
  /** The largest root mean square of an update. */
  d: number;
  /** Decoupled weight decay: it shrinks the parameters directly. */
  weightDecay: number;
}

const rowName = 'row_var';
const columnName = 'col_var';

/**
 * torch.optim.Adafactor (Shazeer and Stern 2018): for a matrix it keeps only the means of the rows and of the columns
 * of the squared gradient. With more dims, the last two are the matrix. If ranks divide a matrix, each rank collects
 * the whole gradient for a step, and all ranks keep the same means.
 */
export class Adafactor extends Optimizer<AdafactorSettings> {
  static readonly typeName: string = 'Adafactor';

  /** Defaults: lr 1e-2, beta2Decay -0.8, eps [2 ** -23, 1e-3], d 1, weightDecay 0, maximize off. Throws ConfigError. */
  constructor(
    params: OptimizerInput<AdafactorSettings>,
    settings: Partial<AdafactorSettings> = {},
    ...more: readonly never[]
  ) {
    super(
      params,
      settings,
      {
        lr: 1e-2,
        beta2Decay: -0.8,
        eps: [2 ** -23, 1e-3],
        d: 1,
        weightDecay: 0,
        maximize: false,
      },
      more,
    );
  }

  protected override rule(settings: AdafactorSettings, steps: number): UpdateRule {
    const { lr, eps, weightDecay } = settings;
    const take = new Scalar(steps ** settings.beta2Decay);
    const least = new Scalar(eps[0]);
    const leastSquare = new Scalar(eps[0] ** 2);
    const leastScale = new Scalar(eps[1]);
    const rate = new Scalar(Math.min(lr, 1 / Math.sqrt(steps)));
    const largest = new Scalar(settings.d);
    const decay = new Scalar(1 - lr * weightDecay);
    const next = (mean: Tensor, value: Tensor): Tensor => {
      const moved = mean.add(value.sub(mean).mul(take.of(value.shape)));
      mean.assign(moved);
      return moved;
    };

    /** Estimates the mean square of a matrix from the means of its rows and columns. Shape: whole -> whole. */
    const factored = (gradient: Tensor, state: ParameterState): Tensor => {
      const square = gradient.square();
      const rows = next(state.tensor(rowName), square.mean(-1, { keepDim: true }));
      const columns = next(state.tensor(columnName), square.mean(-2, { keepDim: true }));
      const mean = rows.mean(-2, { keepDim: true });
      return rows.matmul(columns).div(mean.maximum(least.of(mean.shape)));
    };

    return (parameter, given, state, whole) => {
      const { shape } = parameter;
      const gradient = descent(given, settings);
      const { wholeShape } = parameter;
      const count = elementCount(wholeShape);
      const meanSquare =
        wholeShape.length > 1
          ? whole.partOf(factored(whole.wholeOf(gradient), state))
          : next(state.tensor('variance'), gradient.square());
      const update = meanSquare.maximum(leastSquare.of(shape)).rsqrt().mul(gradient);
      const root = (x: Tensor): Tensor =>
        sumOverParts(parameter, x.square().sum()).div(count).sqrt();
      const scale = root(parameter).maximum(leastScale.of([])).mul(rate.of([]));
      const excess = root(update).div(largest.of([])).maximum(1);
      const kept = weightDecay === 0 ? parameter : parameter.mul(decay.of(shape));
      parameter.assign(kept.sub(update.mul(scale.div(excess))));
    };
  }

  /** The means of rows and columns describe the whole matrix, on every rank. */
  protected override stateType(name: string, part: Tensor): StateType {
    const shape = meansOf(name, part.wholeShape);
    if (shape === undefined) return super.stateType(name, part);
    const { varyingOver: varying } = part;
    const layout = { ...replicated(shape), ...(varying.length === 0 ? {} : { varying }) };
    return { shape, dtype: part.dtype, layout, wholeShape: shape };
  }

  protected override wholeState(name: string, tensor: Tensor, parameter: Tensor): Tensor {
    return meansOf(name, parameter.part.wholeShape) === undefined
      ? super.wholeState(name, tensor, parameter)
      : tensor;
  }

  protected override get savedNames(): readonly string[] {
    return [rowName, columnName, 'variance'];
  }

  protected override checkSettings(settings: AdafactorSettings): void {
    checkSetting('lr', settings.lr, 0);
    checkSetting('beta2Decay', -settings.beta2Decay, 0);
    checkSetting('eps[0]', settings.eps[0], 0);
    checkSetting('eps[1]', settings.eps[1], 0);
    checkSetting('d', settings.d, 1);
    checkSetting('weightDecay', settings.weightDecay, 0);
  }
}

/**
 * The shape of the means that are kept under a name for a matrix. Undefined for a state that has the parameter's shape.
 */
function meansOf(name: string, whole: Shape): Shape | undefined {
  if (name === rowName) return whole.map((size, dim) => (dim === whole.length - 1 ? 1 : size));
  if (name === columnName) return whole.map((size, dim) => (dim === whole.length - 2 ? 1 : size));
  return undefined;
}
