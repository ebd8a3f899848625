import { axisOf } from '../mesh.ts';
import { currentSession } from '../rank.ts';
import { ConfigError } from '../spec/errors.ts';
import type { AxisParams } from '../spec/op.ts';
import { allGather, allReduce } from '../tensor/collectives.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { adamMoments } from './adam-moments.ts';
import { checkAdamSettings, type AdamMomentSettings } from './adam-rule.ts';
import { oneBitMean, oneBitPartElements } from './one-bit-mean.ts';
import { Optimizer, type UpdateRule } from './optimizer.ts';
import { checkSetting, type OptimizerInput } from './param-group.ts';
import type { ParameterState } from './parameter-state.ts';
import { Scalar } from './scalar.ts';
import type { StateType } from './state-type.ts';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';

/** Settings of `OneBitAdam`. */
export interface OneBitAdamSettings extends AdamMomentSettings {
  /** The number of steps of Adam before communication is compressed. After them, `exp_avg_sq` no longer changes. */
  freezeStep: number;
}

/** Options of `OneBitAdam` in addition to its settings. */
export interface OneBitAdamOptions {
  /** The mesh axis whose ranks have different batches. Default: `dp`. */
  readonly axis?: string;
}

const optionRules: OptionRules<OneBitAdamOptions> = { axis: option.axisName };

/**
 * 1-bit Adam (Tang et al. 2021). It averages over the ranks itself, so it needs the gradients of this rank's batch:
 * call backward() inside `noSync` of a model that is whole on every rank. Up to `freezeStep` it is Adam, and averages
 * gradients in f32. After that it averages momenta with one bit per element. Unlike DeepSpeed's, it corrects the
 * running means for their start at zero, as Adam does.
 */
export class OneBitAdam extends Optimizer<OneBitAdamSettings> {
  static readonly typeName: string = 'OneBitAdam';
  readonly #axis: AxisParams;

  /**
   * Defaults: lr 1e-3, betas [0.9, 0.999], eps 1e-8, weightDecay 0 (decoupled), freezeStep 100000. Throws ConfigError,
   * also for parameters that are sharded over the axis.
   */
  constructor(
    params: OptimizerInput<OneBitAdamSettings>,
    settings: Partial<OneBitAdamSettings> = {},
    options: OneBitAdamOptions = {},
  ) {
    super(params, settings, {
      lr: 1e-3,
      betas: [0.9, 0.999],
      eps: 1e-8,
      weightDecay: 0,
      freezeStep: 100_000,
    });
    checkOptions('OneBitAdam', options, optionRules);
    const { axis = 'dp' } = options;
    this.#axis = axisOf(currentSession().mesh, axis);
    const sharded = this.paramGroups.some(({ params: list }) =>
      list.some(({ part }) => part.shardedOver.includes(axis)),
    );
    if (sharded) throw notWhole(axis);
  }

  protected override rule(settings: OneBitAdamSettings, steps: number): UpdateRule {
    const { lr, betas, weightDecay, freezeStep } = settings;
    const isFrozen = steps > freezeStep;
    const moments = adamMoments(settings, Math.min(steps, freezeStep));
    const take = new Scalar(1 - betas[0]);
    const stepSize = new Scalar(lr / (1 - betas[0] ** steps));
    const decay = new Scalar(1 - lr * weightDecay);
    const { axis } = this.#axis;
    return (parameter, gradient, state) => {
      const { shape } = parameter;
      const [mean, square] = [state.tensor('exp_avg'), state.tensor('exp_avg_sq')];
      const next = isFrozen
        ? {
            mean: this.#compressed(mean.add(gradient.sub(mean).mul(take.of(shape))), state),
            square,
          }
        : moments.next(mean, square, allReduce(gradient, axis, { reduce: 'avg' }));
      const step = next.mean.mul(stepSize.of(shape)).div(moments.denominator(next.square));
      mean.assign(next.mean);
      if (!isFrozen) square.assign(next.square);
      const kept = weightDecay === 0 ? parameter : parameter.mul(decay.of(shape));
      parameter.assign(kept.sub(step));
    };
  }

  protected override get takesLocalGradients(): boolean {
    return true;
  }

  #compressed(momentum: Tensor, state: ParameterState): Tensor {
    const errors = { worker: state.tensor('worker_error'), server: state.tensor('server_error') };
    return oneBitMean(momentum, errors, this.#axis);
  }

  /**
   * Each rank has its own worker error, which its messages have left out so far. The server error is sharded: each
   * rank has the elements that it averages for all.
   */
  protected override stateType(name: string, part: Tensor): StateType {
    const type = super.stateType(name, part);
    const { axis } = this.#axis;
    if (name === 'worker_error') {
      const varying = [...part.varyingOver, axis];
      return { ...type, layout: { ...part.layout, varying }, otherwise: 'mean' };
    }
    if (name !== 'server_error') return type;
    const elements = this.#averagedElements(part);
    const layout = { ...part.layout, flat: [axis], chunkSizes: { [axis]: elements } };
    return { shape: [elements], dtype: 'f32', layout };
  }

  protected override wholeState(name: string, tensor: Tensor, parameter: Tensor): Tensor {
    if (name !== 'server_error') return super.wholeState(name, tensor, parameter);
    const { shape, numel } = parameter.part;
    const all = allGather(tensor, this.#axis.axis, 0).slice(0, 0, numel);
    return parameter.wholeOf(all.reshape(shape));
  }

  #averagedElements({ numel }: Tensor): number {
    return oneBitPartElements(numel, this.#axis.size);
  }

  protected override get savedNames(): readonly string[] {
    return ['exp_avg', 'exp_avg_sq', 'worker_error', 'server_error'];
  }

  protected override checkSettings(settings: OneBitAdamSettings): void {
    checkAdamSettings(settings);
    checkSetting('freezeStep', settings.freezeStep, 1);
  }
}

function notWhole(axis: string): ConfigError {
  return new ConfigError(
    {
      asked: `OneBitAdam over the mesh axis '${axis}'`,
      found: 'parameters of which each of its ranks has a part',
      todo: 'Use it with a model that is whole on every rank, as with ddp()',
    },
    { axis },
  );
}
