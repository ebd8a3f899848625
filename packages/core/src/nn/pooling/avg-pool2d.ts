import type { Tensor } from '../../tensor/tensor.ts';
import type { Size2d } from '../functional/window-size.ts';
import { avgPool2d, kernelRules, poolRules, type PoolOptions } from '../functional/pool2d.ts';
import { Module } from '../module/module.ts';
import { checkOptions } from '../../base/check-options.ts';

/** The mean of each window. */
export class AvgPool2d extends Module {
  readonly kernel: Size2d;
  readonly options: PoolOptions;

  /** Throws ConfigError. */
  constructor(kernel: Size2d, options: PoolOptions = {}) {
    super();
    checkOptions('AvgPool2d', { kernel }, kernelRules);
    checkOptions('AvgPool2d', options, poolRules);
    this.kernel = kernel;
    this.options = options;
  }

  /** Shape: x [N, C, H, W] -> [N, C, H', W']. */
  forward(x: Tensor): Tensor {
    return avgPool2d(x, this.kernel, this.options);
  }

  protected override describe(): string {
    const options = Object.entries({ kernel: this.kernel, ...this.options });
    return options.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(', ');
  }
}
