import { checkOptions } from '../../base/check-options.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import {
  avgPool2d,
  kernelRules,
  maxPool2d,
  type MaxPoolOptions,
  maxPoolRules,
  type PoolOptions,
  poolRules,
} from '../functional/pool2d.ts';
import type { Size2d } from '../functional/window-size.ts';
import { Module } from '../module/module.ts';

/** The base class of pools over two dims. */
abstract class Pool2d<Options extends object> extends Module {
  readonly kernel: Size2d;
  readonly options: Options;

  constructor(kernel: Size2d, options: Options) {
    super();
    this.kernel = kernel;
    this.options = options;
  }

  protected override describe(): string {
    const options = Object.entries({ kernel: this.kernel, ...this.options });
    return options.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(', ');
  }
}

/** The maximum of each window. */
export class MaxPool2d extends Pool2d<MaxPoolOptions> {
  /** Throws ConfigError. */
  constructor(kernel: Size2d, options: MaxPoolOptions = {}) {
    checkOptions('MaxPool2d', { kernel }, kernelRules);
    checkOptions('MaxPool2d', options, maxPoolRules);
    super(kernel, options);
  }

  /** Shape: x [N, C, H, W] -> [N, C, H', W']. */
  forward(x: Tensor): Tensor {
    return maxPool2d(x, this.kernel, this.options);
  }
}

/** The mean of each window. */
export class AvgPool2d extends Pool2d<PoolOptions> {
  /** Throws ConfigError. */
  constructor(kernel: Size2d, options: PoolOptions = {}) {
    checkOptions('AvgPool2d', { kernel }, kernelRules);
    checkOptions('AvgPool2d', options, poolRules);
    super(kernel, options);
  }

  /** Shape: x [N, C, H, W] -> [N, C, H', W']. */
  forward(x: Tensor): Tensor {
    return avgPool2d(x, this.kernel, this.options);
  }
}
