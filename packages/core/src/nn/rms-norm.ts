import * as init from '../random/init.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { Module } from './module.ts';
import { Parameter } from './parameter.ts';

export interface RMSNormOptions {
  /** Added to the mean square; default 2^-23, the float32 epsilon, as in PyTorch. */
  readonly eps?: number;
}

/** Division by the root mean square over the last dim (Zhang and Sennrich 2019). Weight [size] of ones. */
export class RMSNorm extends Module {
  weight: Parameter;
  readonly eps: number;

  constructor(size: number, options: RMSNormOptions = {}) {
    super();
    this.weight = new Parameter(init.ones([size]), [size]);
    this.eps = options.eps ?? 2 ** -23;
  }

  /** Shape: x [.., size] -> [.., size]. */
  forward(x: Tensor): Tensor {
    return x.rmsNorm(this.weight, this.eps);
  }

  protected override describe(): string {
    return `${this.weight.numel}, eps=${this.eps}`;
  }
}
