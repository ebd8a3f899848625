import type { Tensor } from '../../tensor/tensor.ts';
import type { Size2d } from '../functional/window-size.ts';
import { maxPool2d, kernelRules, maxPoolRules, type MaxPoolOptions } from '../functional/pool2d.ts';
import { Module } from '../module/module.ts';
import { checkOptions } from '../../base/check-options.ts';

/** The maximum of each window. */
export class MaxPool2d extends Module {
  readonly kernel: Size2d;
  readonly options: MaxPoolOptions;

  /** Throws ConfigError. */
  constructor(kernel: Size2d, options: MaxPoolOptions = {}) {
    super();
    checkOptions('MaxPool2d', { kernel }, kernelRules);
    checkOptions('MaxPool2d', options, maxPoolRules);
    this.kernel = kernel;
    this.options = options;
  }

  /** Shape: x [N, C, H, W] -> [N, C, H', W']. */
  forward(x: Tensor): Tensor {
    return maxPool2d(x, this.kernel, this.options);
  }

  protected override describe(): string {
    const options = Object.entries({ kernel: this.kernel, ...this.options });
    return options.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(', ');
  }
}
