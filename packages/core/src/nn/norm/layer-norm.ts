import * as init from '../../random/init.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { Module } from '../module/module.ts';
import { Parameter } from '../parameter/parameter.ts';
import { requireShape } from '../functional/require-shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';

export interface LayerNormOptions {
  /** The number that is added to the variance. Default: 1e-5. */
  readonly eps?: number;
}

const layerNormRules: OptionRules<LayerNormOptions> = { eps: option.nonNegative };
const sizeRules: OptionRules<{ size: number }> = { size: option.required(option.count) };

/** Layer normalisation over the last dim (Ba et al. 2016). Weight [size] of ones, bias [size] of zeros. */
export class LayerNorm extends Module {
  weight: Parameter;
  bias: Parameter;
  readonly eps: number;

  /** Throws ConfigError. */
  constructor(size: number, options: LayerNormOptions = {}) {
    super();
    checkOptions('LayerNorm', { size }, sizeRules);
    checkOptions('LayerNorm', options, layerNormRules);
    this.weight = new Parameter(init.ones([size]), [size]);
    this.bias = new Parameter(init.zeros([size]), [size]);
    this.eps = options.eps ?? 1e-5;
  }

  /** Shape: x [.., size] -> [.., size]. Throws ShapeError. */
  forward(x: Tensor): Tensor {
    const size = this.weight.numel;
    requireShape({ operation: 'LayerNorm', name: 'x', value: x }, ['..', ['features', size]]);
    return x.layerNorm(this.weight, this.bias, this.eps);
  }

  protected override describe(): string {
    return `${this.weight.numel}, eps=${this.eps}`;
  }
}
