import * as init from '../../random/init.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { Module } from '../module/module.ts';
import { Parameter } from '../parameter/parameter.ts';
import { requireShape } from '../functional/require-shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';

export interface RMSNormOptions {
  /** The number that is added to the mean square. Default: 2^-23, the float32 epsilon, as in PyTorch. */
  readonly eps?: number;
}

const rmsNormRules: OptionRules<RMSNormOptions> = { eps: option.nonNegative };
const sizeRules: OptionRules<{ size: number }> = { size: option.required(option.count) };

/** Divides by the root mean square over the last dim (Zhang and Sennrich 2019). Weight [size] of ones. */
export class RMSNorm extends Module {
  weight: Parameter;
  readonly eps: number;

  /** Throws ConfigError. */
  constructor(size: number, options: RMSNormOptions = {}) {
    super();
    checkOptions('RMSNorm', { size }, sizeRules);
    checkOptions('RMSNorm', options, rmsNormRules);
    this.weight = new Parameter(init.ones([size]), [size]);
    this.eps = options.eps ?? 2 ** -23;
  }

  /** Shape: x [.., size] -> [.., size]. Throws ShapeError. */
  forward(x: Tensor): Tensor {
    const size = this.weight.numel;
    requireShape({ operation: 'RMSNorm', name: 'x', value: x }, ['..', ['features', size]]);
    return x.rmsNorm(this.weight, this.eps);
  }

  protected override describe(): string {
    return `${this.weight.numel}, eps=${this.eps}`;
  }
}
