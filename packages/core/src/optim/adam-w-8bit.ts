import { inputNode } from '../graph/create-node.ts';
import type { HostArray } from '../serialization/host-array.ts';
import { Tensor } from '../tensor/tensor.ts';
import { adamMoments } from './adam-moments.ts';
import { adamRule, checkAdamSettings, type AdamMomentSettings } from './adam-rule.ts';
import { dequantize, quantize, quantizedShapes } from './block-quantization.ts';
import { type DynamicMap, signedMap, unsignedMap } from './dynamic-map.ts';
import { Optimizer, type UpdateRule } from './optimizer.ts';
import type { OptimizerInput } from './param-group.ts';
import type { ParameterState } from './parameter-state.ts';
import { Scalar } from './scalar.ts';
import type { StateType } from './state-type.ts';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';

/** Options of `AdamW8bit` in addition to its settings. */
export interface AdamW8bitOptions {
  /** The states of parameters with fewer elements stay f32. Default: 4096. */
  readonly minElements?: number;
}

const optionRules: OptionRules<AdamW8bitOptions> = { minElements: option.count };

/** The map that each running mean is stored with, and the names of the states with its codes and scales. */
const stored = {
  exp_avg: { map: signedMap, codes: 'exp_avg_codes', scales: 'exp_avg_scales' },
  exp_avg_sq: { map: unsignedMap, codes: 'exp_avg_sq_codes', scales: 'exp_avg_sq_scales' },
} as const satisfies Record<string, { map: DynamicMap; codes: string; scales: string }>;

type Mean = keyof typeof stored;
const means: readonly Mean[] = ['exp_avg', 'exp_avg_sq'];

/**
 * AdamW whose running means take one byte per element each, in blocks of 256 with one scale per block (Dettmers et al.
 * 2022). The update of a parameter converts its codes to f32 and back. Checkpoints contain the f32 values, so that
 * AdamW, and ranks that divide the parameter differently, can continue from them. A rank that loads the same part again
 * gets the same codes.
 */
export class AdamW8bit extends Optimizer<AdamMomentSettings> {
  static readonly typeName: string = 'AdamW8bit';
  readonly #minElements: number;

  /** Defaults: lr 1e-3, betas [0.9, 0.999], eps 1e-8, weightDecay 1e-2. Throws ConfigError. */
  constructor(
    params: OptimizerInput<AdamMomentSettings>,
    settings: Partial<AdamMomentSettings> = {},
    options: AdamW8bitOptions = {},
  ) {
    super(params, settings, { lr: 1e-3, betas: [0.9, 0.999], eps: 1e-8, weightDecay: 1e-2 });
    checkOptions('AdamW8bit', options, optionRules);
    this.#minElements = options.minElements ?? 4096;
  }

  protected override rule(settings: AdamMomentSettings, steps: number): UpdateRule {
    const { lr, betas, weightDecay } = settings;
    const plain = adamRule({ ...settings, amsgrad: false, maximize: false }, steps, true);
    const moments = adamMoments(settings, steps);
    const stepSize = new Scalar(lr / (1 - betas[0] ** steps));
    const decay = new Scalar(1 - lr * weightDecay);
    return (parameter, gradient, state, whole) => {
      if (parameter.numel < this.#minElements) {
        plain(parameter, gradient, state, whole);
        return;
      }
      const { shape } = parameter;
      const [mean, square] = [read(state, 'exp_avg', shape), read(state, 'exp_avg_sq', shape)];
      const next = moments.next(mean, square, gradient);
      write(state, 'exp_avg', next.mean);
      write(state, 'exp_avg_sq', next.square);
      const step = next.mean.mul(stepSize.of(shape)).div(moments.denominator(next.square));
      const kept = weightDecay === 0 ? parameter : parameter.mul(decay.of(shape));
      parameter.assign(kept.sub(step));
    };
  }

  protected override stateType(name: string, part: Tensor): StateType {
    const { codes, scales } = quantizedShapes(part.shape);
    if (means.some((mean) => stored[mean].codes === name)) return { shape: codes, dtype: 'u8' };
    if (means.some((mean) => stored[mean].scales === name)) return { shape: scales, dtype: 'f32' };
    return super.stateType(name, part);
  }

  protected override exportState(
    state: ParameterState,
    part: Tensor,
  ): ReadonlyMap<string, () => Tensor> {
    if (part.numel < this.#minElements) return super.exportState(state, part);
    return new Map(means.map((name) => [name, () => read(state, name, part.shape)]));
  }

  protected override importState(
    state: ParameterState,
    name: string,
    array: HostArray,
    part: Tensor,
  ): void {
    const mean = means.find((each) => each === name);
    if (mean === undefined || part.numel < this.#minElements) {
      super.importState(state, name, array, part);
      return;
    }
    write(state, mean, new Tensor(inputNode(array.shape, array.dtype, { kind: 'host', ...array })));
  }

  protected override get savedNames(): readonly string[] {
    return ['exp_avg', 'exp_avg_sq'];
  }

  protected override checkSettings(settings: AdamMomentSettings): void {
    checkAdamSettings(settings);
  }
}

function read(state: ParameterState, name: Mean, shape: Tensor['shape']): Tensor {
  const { map, codes, scales } = stored[name];
  return dequantize({ codes: state.tensor(codes), scales: state.tensor(scales) }, map, shape);
}

function write(state: ParameterState, name: Mean, value: Tensor): void {
  const { map, codes, scales } = stored[name];
  const quantized = quantize(value, map);
  state.tensor(codes).assign(quantized.codes);
  state.tensor(scales).assign(quantized.scales);
}
